// Channels (docs/channels.md): bounded queues of elements in the memory of one GPU, with kernels and host threads as
// producers and consumers, and sets of one channel per PE.
#pragma once
#include "lib/channel/channel.cuh"
#include "lib/channel/host_channel.cuh"
#include "lib/channel/remote_channel.cuh"

namespace gravel {
using detail::channel;
}  // namespace gravel
