#pragma once

// Debian 12 has Catch2 2.13, Ubuntu 24.04 has 3.4.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
