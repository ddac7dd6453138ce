// lib/graph: graphs from files and generators, their rows, and their division among PEs. All on the host.
#pragma once
#include "lib/graph/csr.hpp"
#include "lib/graph/edge_list.hpp"
#include "lib/graph/generate.hpp"
#include "lib/graph/ghosts.hpp"
#include "lib/graph/partition.hpp"
#include "lib/graph/read.hpp"
#include "lib/graph/weight.hpp"
