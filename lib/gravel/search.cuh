// Breadth-first search in one kernel (docs/worklists.md): gravel_search.
#pragma once
#include "lib/worklist/search.cuh"
