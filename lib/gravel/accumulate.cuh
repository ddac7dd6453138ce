// gravel_accumulate: combines an array of this PE with one at another PE, element by element, at that PE.
#pragma once
#include "lib/remote_task/accumulate.cuh"
