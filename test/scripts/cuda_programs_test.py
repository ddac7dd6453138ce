"""Programs in CUDA's style for the CPU backend: the translator of launches (tools/cuda_to_cpp.py), the options that
tools/cuda_compiler.py understands, and CUDA's runtime API in lib/gravel/cuda_on_cpu.
Usage: cuda_programs_test.py COMPILER FOLDER_OF_LIBGRAVEL"""

import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools"))
from cuda_compiler import command_line  # noqa: E402
from cuda_to_cpp import place_of, translate, untranslatable  # noqa: E402

COMPILER, LIBDIR = sys.argv[1:3]
NAMESPACE = "::gravel::cuda_on_cpu::"


def launched(kernel, shape):
    return (f"{NAMESPACE}start([=](const auto&... gravel_argument) {{ {kernel}(gravel_argument...); }}, "
            f"{NAMESPACE}shape({shape}))")


# A statement, and what becomes of it. `k` is the name of a kernel.
TRANSLATED = [
    ("k<<<1, 2>>>(a);", f"{launched('k', '1, 2')}(a);"),
    ("k<<<1, 2, 0, s>>>();", f"{launched('k', '1, 2, 0, s')}();"),
    ("k<<<dim3(1, 2), f(a, b)>>>(a);", f"{launched('k', 'dim3(1, 2), f(a, b)')}(a);"),
    ("k<float, (3 > 2)><<<1, 2>>>(a);", f"{launched('k<float, (3 > 2)>', '1, 2')}(a);"),
    ("k<std::pair<int, int>><<<1, 2>>>(a);", f"{launched('k<std::pair<int, int>>', '1, 2')}(a);"),
    ("a::b<int>::k<2><<<1, 2>>>(a);", f"{launched('a::b<int>::k<2>', '1, 2')}(a);"),
    ("::k<<<1, 2>>>(a);", f"{launched('::k', '1, 2')}(a);"),
    ("this->k<<<1, 2>>>(a);", f"{launched('this->k', '1, 2')}(a);"),
    ("all[i]<<<1, 2>>>(a);", f"{launched('all[i]', '1, 2')}(a);"),
    ("(x ? f : g)<<<1, 2>>>(a);", f"{launched('(x ? f : g)', '1, 2')}(a);"),
    ("if (x) k<<<1, 2>>>(a); else g();", f"if (x) {launched('k', '1, 2')}(a); else g();"),
    ("k<<<1, 2>>>(__null, f(__null), a ? b : __null);",
     f"{launched('k', '1, 2')}(nullptr, f(__null), a ? b : __null);"),
    ("k<<<1,\n    2>>>(a,\n  b);", f"{launched('k', f'1,{chr(10)}    2')}(a,\n  b);"),
    ('f("k<<<1, 2>>>(a);", \'"\', R"x(k<<<1)" 2>>>(a))x");', None),
    ("a = b << 3 >> 1; c = d < e > (f); g = 1'000 << 2;", None),
    ("run((const void*)k, args);", f"run((const void*){NAMESPACE}known(k), args);"),
    ("run((void*)&k<int, 2>, args);", f"run((void*){NAMESPACE}known(&k<int, 2>), args);"),
    ("f = k; g(k, 1); return k;",
     f"f = {NAMESPACE}known(k); g({NAMESPACE}known(k), 1); return {NAMESPACE}known(k);"),
    ("int k = 3; x.k = 4; k(1); struct k { int k; };", None),
    ("while (*p != 1);", "for (::gravel::detail::relax gravel_wait; *p != 1;) gravel_wait.attentively();"),
    ("while (f(a))\n  ;", "for (::gravel::detail::relax gravel_wait; f(a);)\n   gravel_wait.attentively();"),
    ("while (a) {}", "for (::gravel::detail::relax gravel_wait; a;) { gravel_wait.attentively(); }"),
    ("do { b(); } while (a);", None),
    ("do b(); while (a);", None),
    ("while (a) b();", None),
    ("do { while (b); } while (a);",
     "do { for (::gravel::detail::relax gravel_wait; b;) gravel_wait.attentively(); } while (a);"),
    ("extern static thread_local float s[];",
     "[[maybe_unused]] float* const s = reinterpret_cast<float*>(::gravel_dynamic_shared());"),
    ("extern static thread_local __attribute__((aligned(16))) unsigned char s[];",
     "[[maybe_unused]] unsigned char* const s = reinterpret_cast<unsigned char*>(::gravel_dynamic_shared());"),
    ("static static thread_local int x;", " static thread_local int x;"),
    ("__noinline__ void f(); __attribute__((__noinline__)) void g();",
     "__attribute__((noinline)) void f(); __attribute__((__noinline__)) void g();"),
]
REFUSED = [
    ("3 <<< 4;", "'<<<' does not stand behind the name of a kernel"),
    ("k<<<1, 2;", "'<<<' has no '>>>'"),
    ("k<<<1, 2>>>;", "'<<< >>>' has no arguments behind it"),
    ("k<<<f(((1, 2>>>", "is not closed"),
    ("extern static thread_local int s;", "dynamic shared memory is declared as"),
]
BEFORE = '# 1 "a.cu"\ntemplate <int N> __global__ void __attribute__((x(1))) k(int* a) { }\nvoid f() {\n'

# What a program of CUDA does, on the CPU backend. Each line of `check` names what is wrong.
PROGRAM = r"""
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;
#define START(kernel, ...) kernel<<<__VA_ARGS__>>>
__device__ volatile unsigned gate;
__constant__ int factor;
int faults = 0;
void check(bool good, const char* what) {
  if (good) return;
  std::printf("wrong: %s\n", what);
  ++faults;
}
template <class T>
__global__ void add(T* x, T by, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += by;
}
__global__ void __launch_bounds__(256) sum(const float* x, float* to, int n) {
  extern __shared__ float part[];
  part[threadIdx.x] = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) part[threadIdx.x] += x[i] * factor;
  for (int s = blockDim.x / 2; s; s /= 2) {
    __syncthreads();
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
  }
  if (threadIdx.x == 0) *to = part[0];
}
__global__ void gather(unsigned* arrived) {
  if (threadIdx.x == 0) {
    if (atomicInc(arrived, 1000) == gridDim.x - 1) gate = 1;
    while (gate == 0)
      ;
  }
  __syncthreads();
}
__global__ void groups(int* to, int rounds) {
  const cg::grid_group grid = cg::this_grid();
  for (int r = 0; r < rounds; ++r) {
    atomicAdd(to, 1);
    grid.sync();
    if (*to != (r + 1) * static_cast<int>(grid.size())) to[1] = 1;
    grid.sync();
  }
  const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int v = tile.thread_rank();
  for (int i = tile.size() / 2; i; i /= 2) v += tile.shfl_down(v, i);
  if (tile.thread_rank() == 0) atomicAdd(to + 2, v);
}
__global__ void slow_write(int* x) {
  __nanosleep(20'000'000);
  *x = 7;
}
__global__ void fail(int) { __trap(); }
int main() {
  const int n = 1000, two = 2;
  float *x, *to, got = 0;
  cudaStream_t s;
  check(cudaMalloc(&x, n * sizeof(float)) == cudaSuccess && cudaMalloc((void**)&to, 4) == cudaSuccess, "cudaMalloc");
  check(cudaStreamCreate(&s) == cudaSuccess, "cudaStreamCreate");
  cudaMemcpyToSymbol(factor, &two, sizeof two);
  cudaMemsetAsync(x, 0, n * sizeof(float), s);
  add<<<(n + 255) / 256, 256, 0, s>>>(x, 1.5f, n);
  START(add<float>, (n + 255) / 256, 256)(x, 1, n);  // in the null stream, behind the one before
  sum<<<1, 256, 256 * sizeof(float), s>>>(x, to, n);
  cudaMemcpyAsync(&got, to, 4, cudaMemcpyDeviceToHost, s);
  check(cudaStreamSynchronize(s) == cudaSuccess && got == 5000, "launches in two streams");
  int length = n / 2;
  void* arguments[] = {&x, &to, &length};
  check(cudaLaunchKernel((const void*)sum, dim3(1), dim3(128), arguments, 512, s) == cudaSuccess, "cudaLaunchKernel");
  length = 1;  // the arguments were copied
  cudaMemcpyAsync(&got, to, 4, cudaMemcpyDeviceToHost, s);
  cudaStreamSynchronize(s);
  check(got == 2500, "a kernel by its address");

  unsigned* arrived;
  cudaMalloc(&arrived, 4);
  cudaMemset(arrived, 0, 4);
  gather<<<20, 64>>>(arrived);
  check(cudaDeviceSynchronize() == cudaSuccess && *arrived == 20, "blocks that wait for each other");

  int *words, rounds = 3;
  cudaMallocManaged(&words, 12);
  cudaMemset(words, 0, 12);
  void* of_groups[] = {&words, &rounds};
  cudaLaunchCooperativeKernel((void*)groups, dim3(4), dim3(32), of_groups);
  cudaDeviceSynchronize();
  check(words[0] == 3 * 128 && words[1] == 0 && words[2] == 16 * 28, "cooperative groups");

  // A stream that waits for an event of another one; neither follows the null stream.
  cudaStream_t a, b;
  cudaEvent_t begin, end;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  words[0] = 0;
  cudaEventRecord(begin, a);
  slow_write<<<1, 1, 0, a>>>(words);
  check(cudaStreamQuery(a) == cudaErrorNotReady, "cudaStreamQuery");
  cudaEventRecord(end, a);
  cudaStreamWaitEvent(b, end);
  cudaMemcpyAsync(words + 1, words, 4, cudaMemcpyDefault, b);
  cudaStreamSynchronize(b);
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end) == cudaSuccess && ms > 15 && ms < 15'000, "cudaEventElapsedTime");
  check(words[1] == 7, "cudaStreamWaitEvent");
  check(cudaStreamDestroy(a) == cudaSuccess && cudaStreamDestroy(a) == cudaErrorInvalidResourceHandle, "a dead stream");

  const half h = __float2half(1.5f);
  check(__half2float(h) + float(__nv_bfloat16(2.0f)) == 3.5f && sizeof h == 2, "numbers of 16 bits");
  check(min(3u, 5) == 3 && max(2.0, 1) == 2 && make_float4(1, 2, 3, 4).w == 4, "min, max, vectors");
  cudaDeviceProp facts;
  int threads = 0;
  cudaGetDeviceProperties(&facts, 0);
  cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerBlock, 0);
  check(facts.warpSize == 32 && threads == 1024 && cudaSetDevice(64) == cudaErrorInvalidDevice, "devices");
  cudaGetLastError();
  add<<<300, 2000>>>(x, 1.0f, n);
  check(cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess, "cudaGetLastError");
  int unknown = 0;
  check(cudaLaunchKernel((void*)&unknown, dim3(1), dim3(1), arguments) == cudaErrorInvalidDeviceFunction, "no kernel");
  CUmodule none;
  check(cuModuleLoad(&none, "x.cubin") == CUDA_ERROR_NO_BINARY_FOR_GPU, "cuModuleLoad");
  cudaGetLastError();
  fail<<<1, 1>>>(0);
  check(cudaDeviceSynchronize() == cudaErrorLaunchFailure, "a kernel that fails");
  std::printf("%d faults\n", faults);
  return faults != 0;
}
"""


class translator(unittest.TestCase):
    def test_statements(self):
        for source, expected in TRANSLATED:
            with self.subTest(source):
                after = BEFORE.replace("__global__", "")
                self.assertEqual(translate(BEFORE + source + "\n}\n"), after + (expected or source) + "\n}\n")

    def test_refused(self):
        for source, why in REFUSED:
            with self.subTest(source):
                text = BEFORE + source + "\n}\n"
                with self.assertRaises(untranslatable) as fault:
                    translate(text)
                self.assertIn(why, str(fault.exception))
                self.assertEqual(place_of(text, fault.exception.place), "a.cu:3")

    def test_other_files(self):
        """Headers of the system and of --skip stay as they are, also where a marker lies within a statement."""
        wait = "while (x) ;\n"
        text = (f'# 1 "a.cu"\n# 1 "/usr/include/x.h" 1 3\n{wait}# 1 "/g/y.h" 1\n{wait}'
                '__global__ void g();\n# 2 "a.cu" 2\n'
                'k<<<1,\n# 2 "a.cu" 3 4\n __null\n# 2 "a.cu"\n >>>(a);\n')
        result = translate(text, ["/g/"])
        self.assertEqual(result.count(wait), 2)
        self.assertNotIn("__global__", result)
        self.assertIn("shape(1,\n# 2 \"a.cu\" 3 4\n __null\n# 2 \"a.cu\"\n ))(a);", result)
        self.assertEqual(result.count("\n"), text.count("\n"))


class options(unittest.TestCase):
    def test_nvcc_and_nvshmem(self):
        line = command_line(shlex.split(
            "-ccbin mpicxx -rdc=true -rdc true -arch=sm_70 -gencode arch=a,code=b -std=c++11 -Xcompiler -Wall,-O1 "
            "-lineinfo -lnvshmem_host -lnvshmem_device -lcuda -Xptxas -v /x/libnvshmem_device.a -DA=1 -I b -lm -dc "
            "x.cu y.cpp -o z.o"))
        self.assertEqual(line.left_out, [
            "-rdc=true", "-rdc true", "-arch=sm_70", "-gencode arch=a,code=b", "-std=c++11", "-lineinfo",
            "-lnvshmem_host", "-lnvshmem_device", "-lcuda", "-Xptxas -v", "/x/libnvshmem_device.a"])
        self.assertEqual((line.compiler, line.standard), ("mpicxx", "-std=c++20"))
        self.assertEqual((line.links, line.output), (False, "z.o"))
        self.assertEqual(line.texts("option"), ["-Wall", "-O1", "-DA=1", "-I", "b"])
        self.assertEqual((line.texts("cuda"), line.texts("file"), line.texts("link")), (["x.cu"], ["y.cpp"], ["-lm"]))

    def test_standards(self):
        for standard in ("-std=c++20", "-std=gnu++23", "-std=c++2b"):
            self.assertEqual(command_line([standard]).standard, standard)


class programs(unittest.TestCase):
    def compile(self, folder, text, *options):
        source = Path(folder) / "program.cu"
        source.write_text(text)
        include = [f"--include={f}" for f in (ROOT / "lib/gravel/cuda_on_cpu", ROOT, ROOT / "lib")]
        command = [sys.executable, ROOT / "tools/cuda_compiler.py", f"--compiler={COMPILER}", *include,
                   f"--libdir={LIBDIR}", "--", "-O0", *options, str(source)]
        return subprocess.run(command, text=True, capture_output=True, cwd=folder, check=False)

    def test_runtime(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.compile(folder, PROGRAM, "-o", "program", "-MD", "-rdc=true")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "gravel-c++: note: not needed, left out: -rdc=true\n")
            self.assertIn("program.cu", (Path(folder) / "program.d").read_text())
            for seed in ("0", "5"):
                ran = subprocess.run([Path(folder) / "program"], text=True, capture_output=True, timeout=120,
                                     env={**os.environ, "GRAVEL_CPU_SEED": seed})
                self.assertEqual((ran.returncode, ran.stdout), (0, "0 faults\n"), ran.stderr)
                self.assertIn("2000", ran.stderr)

    def test_errors(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.compile(folder, "int main() {\n  cudaTearDown(3);\n}\n", "-c")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("program.cu:2:", done.stderr)
            self.assertIn("note: cudaTearDown: Gravel's CPU backend has no such call of CUDA", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
