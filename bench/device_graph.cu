// The launch of a graph from a kernel as a way to start tasks (docs/tasks.md): how long until its kernel's first
// instruction, how long the launching lane is delayed, and how many launches CUDA allows one execution of the launching
// graph. On a GPU alone, without Gravel; linked with -rdc, which such launches need.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>

namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}

constexpr int most = 256;
/// In the GPU's memory. Times are of its clock, in nanoseconds.
struct board {
  cudaGraphExec_t graph[most];
  int launches, graphs;
  bool sibling;
  uint64_t called[most], returned[most], begun[most];
  int error[most];
  uint64_t ran;  ///< kernels of launched graphs
};

__device__ uint64_t nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}
__device__ void pause_for(uint64_t ns) {
  for (const uint64_t begin = nanoseconds(); nanoseconds() - begin < ns;) {
  }
}

__global__ void launched(board* b) {
  if (threadIdx.x != 0) return;
  const uint64_t now = nanoseconds();
  volatile uint64_t* const ran = &b->ran;
  const uint64_t i = *ran;
  b->begun[i] = now;
  __threadfence();
  *ran = i + 1;
}
/// Launches one graph after the other, each when the kernel of the one before has run and its graph has had time to
/// end.
__global__ void launch(board* b) {
  volatile uint64_t* const ran = &b->ran;
  for (int i = 0; i < b->launches; ++i) {
    b->called[i] = nanoseconds();
    const cudaError_t error = cudaGraphLaunch(
        b->graph[i % b->graphs], b->sibling ? cudaStreamGraphFireAndForgetAsSibling : cudaStreamGraphFireAndForget);
    b->returned[i] = nanoseconds();
    b->error[i] = error;
    if (error != cudaSuccess) return;
    while (*ran != static_cast<uint64_t>(i) + 1) {
    }
    pause_for(20'000);
  }
}

cudaGraphExec_t graph_of(void (*kernel)(board*), int threads, board* b, cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture");
  kernel<<<1, threads, 0, stream>>>(b);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&ready, graph, cudaGraphInstantiateFlagDeviceLaunch), "cudaGraphInstantiate");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(cudaGraphUpload(ready, stream), "cudaGraphUpload");
  return ready;
}

void print(const char* what, std::vector<double> us) {
  if (us.empty()) return;
  std::sort(us.begin(), us.end());
  std::printf("  %-40s least %.2f, median %.2f, most %.2f us\n", what, us.front(), us[us.size() / 2], us.back());
}

}  // namespace

int main() {
  cudaStream_t stream = nullptr;
  board* b = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaMalloc(&b, sizeof(board)), "cudaMalloc");
  const cudaGraphExec_t parent = graph_of(launch, 1, b, stream);
  auto here = std::vector<board>(1);
  const struct {
    const char* what;
    int launches, graphs;
    bool sibling;
  } runs[] = {{"100 graphs, once each", 100, 100, false},
              {"one graph, 100 times", 100, 1, false},
              {"200 graphs", 200, 200, false},
              {"200 graphs, as siblings", 200, 200, true}};
  std::vector<cudaGraphExec_t> children(most);
  for (auto& child : children) child = graph_of(launched, 256, b, stream);
  for (const auto& run : runs) {
    board& now = here[0] = {};
    std::copy(children.begin(), children.end(), now.graph);
    now.launches = run.launches;
    now.graphs = run.graphs;
    now.sibling = run.sibling;
    check(cudaMemcpy(b, &now, sizeof(board), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaGraphLaunch(parent, stream), "cudaGraphLaunch");
    check(cudaStreamSynchronize(stream), "the launching kernel");
    check(cudaMemcpy(&now, b, sizeof(board), cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::printf("%s: %d ran\n", run.what, static_cast<int>(now.ran));
    std::vector<double> calls, begins;
    for (uint64_t i = 0; i < now.ran; ++i) {
      calls.push_back(static_cast<double>(now.returned[i] - now.called[i]) / 1e3);
      begins.push_back(static_cast<double>(now.begun[i] - now.called[i]) / 1e3);
    }
    print("from the call to the first instruction", begins);
    print("the call", calls);
    if (now.ran < static_cast<uint64_t>(run.launches))
      std::printf("  launch %d: %s\n", static_cast<int>(now.ran) + 1,
                  cudaGetErrorString(static_cast<cudaError_t>(now.error[now.ran])));
  }
}
