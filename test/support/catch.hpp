// Catch2 version 3 where it is installed, version 2 elsewhere. Tests see Catch2 through this header alone: they use
// macros that both versions have, and no name of the namespace Catch, as those differ (test/scripts/layers_test.py
// looks).
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#define GRAVEL_CATCH_CONTAINS Catch::Matchers::ContainsSubstring
#else
#include <catch2/catch.hpp>
#define GRAVEL_CATCH_CONTAINS Catch::Matchers::Contains
#endif

/// A matcher: `text` is somewhere in the string.
inline auto contains_text(const std::string& text) { return GRAVEL_CATCH_CONTAINS(text); }
#undef GRAVEL_CATCH_CONTAINS

/// A matcher: the string begins with `text`.
inline auto starts_with_text(const std::string& text) { return Catch::Matchers::StartsWith(text); }
