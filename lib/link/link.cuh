// Umbrella header of lib/link (docs/links.md): links and routers move bulk data from one PE's memory into another's, in
// packets, with several buffers. Source: Groute (TOPC 2020), sections 3 and 4.1 to 4.2.
//
//   gravel_link link(gravel_device(0), gravel_device(1), 1 << 20, 2);  // collective: packets of 1 MiB, 2 buffers
//   if (gravel_my_pe() == 0) { link.send(data, bytes); link.shutdown(); }
//   if (gravel_my_pe() == 1)
//     for (;;) {
//       const gravel_segment segment = link.receive().get();
//       if (segment.empty()) break;
//       gravel_launch(use, {.grid = 64, .block = 256, .stream = s}, segment.data, segment.bytes);
//       link.release(segment, s);  // after `use`
//     }
#pragma once
#include "lib/link/reduce.cuh"
#include "lib/link/router.cuh"
