// Catch2 version 3 where it is installed, version 2 elsewhere.
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#if __has_include(<catch2/catch_all.hpp>)
/// The matcher that both versions know under different names.
inline auto contains_text(const std::string& text) { return Catch::Matchers::ContainsSubstring(text); }
#else
inline auto contains_text(const std::string& text) { return Catch::Matchers::Contains(text); }
#endif
