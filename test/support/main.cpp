// The main function of every unit test: from Catch2's library in version 3, generated here in version 2.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
