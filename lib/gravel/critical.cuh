// Critical sections (docs/critical.md): functions that run alone for their keys, at the PE where the keys' records lie.
#pragma once
#include "lib/critical/critical_sections.cuh"
