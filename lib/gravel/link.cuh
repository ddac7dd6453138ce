// Links and routers (docs/links.md): they move bulk data from one PE's memory into another's, in packets.
#pragma once
#include "lib/link/link.cuh"
