// nanobind comes as sources.
#include <nb_combined.cpp>
