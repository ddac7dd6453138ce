// Operations on streams.
#pragma once
#include "host/on_stream.cuh"
