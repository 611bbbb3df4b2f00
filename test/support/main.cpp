// Catch2 3 brings its own main; this file is compiled for Catch2 2 only.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
