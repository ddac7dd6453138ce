// Distributed worklists of items of a program's own type (docs/worklists.md): gravel_item_worklist.
#pragma once
#include "lib/worklist/item_worklist.cuh"
