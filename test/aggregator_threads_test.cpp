#include "test/catch.hpp"
