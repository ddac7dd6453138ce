#!/usr/bin/env python3
"""A symmetric heap that grows beside PyTorch in one process. Usage, under ucx-run: beside_torch.py LIBRARY [GB]

PyTorch allocates tensors before the heap exists, while it grows to GB (10^9 bytes a PE; default: 120, or 80 % of a GPU
that has less), and after it has shrunk. LIBRARY is test/jobs/heap_library. All contents are compared."""

import ctypes
import os
import sys
import time

import torch


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.heap_library_grow.argtypes = [ctypes.c_uint64]
    library.heap_library_wrong.restype = ctypes.c_uint64
    torch.cuda.set_device(int(os.environ["PMIX_RANK"]) % torch.cuda.device_count())  # the one that gravel_init takes
    usual = min(120 * 10**9, torch.cuda.mem_get_info()[1] * 4 // 5)
    target = int(float(sys.argv[2]) * 1e9) if len(sys.argv) > 2 else usual
    kept = [torch.full((1 << 26,), float(i), device="cuda") for i in range(4)]  # 256 MiB each
    me = library.heap_library_init()
    if me < 0:
        return 1
    grown, longest, step = 0, 0.0, min(8 << 30, target)
    while grown < target:
        begin = time.monotonic()
        if library.heap_library_grow(step) != 0:
            print(f"PE {me}: the heap does not grow beyond {grown / 1e9:.1f} GB", file=sys.stderr)
            return 1
        longest = max(longest, time.monotonic() - begin)
        grown += step
        kept.append(torch.full((1 << 24,), float(len(kept)), device="cuda"))
    free_when_large = torch.cuda.mem_get_info()[0]
    wrong = library.heap_library_wrong()
    wrong += sum(int((tensor != i).sum().item()) for i, tensor in enumerate(kept))
    library.heap_library_shrink()
    again = torch.full((grown // 2 // 4,), 7.0, device="cuda")  # what the heap has given back
    wrong += int((again[:: 1 << 12] != 7).sum().item())
    if me == 0:
        print(f"heap {grown / 1e9:.1f} GB beside {sum(t.numel() for t in kept) * 4 / 1e9:.2f} GB of tensors, "
              f"{free_when_large / 1e9:.1f} GB free; longest step {longest:.3f} s; then a tensor of "
              f"{again.numel() * 4 / 1e9:.1f} GB; {wrong} wrong")
    library.heap_library_finalize()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
