#include "test/support/catch.hpp"
