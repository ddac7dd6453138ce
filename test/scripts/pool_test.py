#!/usr/bin/env python3
"""Tensors of a pool of PyTorch, whose memory is of the symmetric heap, are destinations of kernels. A PE of a job:

    ucx-run -n 2 python3 test/scripts/pool_test.py BUILD/test/jobs/pool_job

It needs a GPU, and PyTorch 2.5 or later; without them it says so, and passes. If the package `gravel` is installed, the
pool is that of gravel.mem_pool(); it must have the same libgravel."""

import ctypes
import sys


def skip(why):
    print(f"skipped: {why}")
    sys.exit(0)


try:
    import torch
except ImportError as e:
    skip(f"no PyTorch ({e})")
if not torch.cuda.is_available():
    skip("PyTorch has no CUDA here")
if not hasattr(torch.cuda, "MemPool"):
    skip(f"PyTorch {torch.__version__} has no MemPool")

job = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
job.pool_job_put.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64]


def loaded_libgravel():
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "libgravel.so" in line)


def pool_by_hand():
    global allocator  # pools refer to it
    allocator = torch.cuda.memory.CUDAPluggableAllocator(loaded_libgravel(), "gravel_pool_malloc", "gravel_pool_free")
    return torch.cuda.MemPool(allocator.allocator())


def check(holds, what):
    if not holds:
        sys.exit(f"PE {me}: {what}")


def expected(words, salt):
    return torch.arange(words, device="cuda") * 3 + salt


def put_to_next(tensor, salt):
    torch.cuda.synchronize()  # its zeros are there
    job.pool_job_barrier()
    job.pool_job_put(tensor.data_ptr(), tensor.numel(), salt)
    check(torch.equal(tensor, expected(tensor.numel(), salt)), f"{tensor.numel()} words are wrong")
    torch.cuda.synchronize()
    job.pool_job_barrier()


torch.cuda.set_device(job.pool_job_begin())
me, n_pes = job.pool_job_pe(), job.pool_job_n_pes()
try:
    from gravel import mem_pool
except ImportError:
    mem_pool = pool_by_hand

for round_number in range(2):
    pool = mem_pool()
    with torch.cuda.use_mem_pool(pool):
        tensors = [torch.zeros(words, dtype=torch.int64, device="cuda") for words in (10, 100_000, 3_000_000)]
    elsewhere = torch.zeros(1000, dtype=torch.int64, device="cuda")  # not of the pool
    for salt, tensor in enumerate(tensors):
        put_to_next(tensor, 100 * round_number + salt)
    for salt, tensor in enumerate(tensors):
        check(torch.equal(tensor, expected(tensor.numel(), 100 * round_number + salt)), "a tensor was written over")
    check(not elsewhere.any(), "a tensor that is not of the pool was written")
    del tensors[1], tensor
    with torch.cuda.use_mem_pool(pool):
        tensors.append(torch.zeros(50_000, dtype=torch.int64, device="cuda"))
    put_to_next(tensors[-1], 7)
    try:
        with torch.cuda.use_mem_pool(pool):
            torch.zeros(1 << 44, dtype=torch.int8, device="cuda")
        check(False, "a pool has got 16 TiB")
    except torch.cuda.OutOfMemoryError:
        pass
    put_to_next(tensors[-1], 8)
    del tensors, pool
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    job.pool_job_barrier()
job.pool_job_end()
if me == 0:
    print("ok")
