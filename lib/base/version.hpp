// The version of Gravel: of these headers, and of the libgravel that belongs to them.
#pragma once

#define GRAVEL_VERSION "0.3.0"
