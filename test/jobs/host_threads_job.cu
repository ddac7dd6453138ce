// Every operation that the guide allows host threads, from several of them at once, with symmetric memory that on CUDA
// is a GPU's: what they send, what they read and what they wait for. Run under ucx-run with any number of PEs, and a
// time limit.
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#include <gravel/gravel.cuh>
#if GRAVEL_CUDA
#include "host/pe/device_scope.cuh"
#endif

namespace {

std::atomic<int> failures{0};

void expect(bool holds, const char* what) {
  if (holds) return;
  ++failures;
  fprintf(stderr, "PE %d: %s\n", gravel_my_pe(), what);
}

template <class T>
T read(const T* symmetric) {
  T value;
  gravel_copy(&value, symmetric, sizeof(value));
  return value;
}
template <class T>
void write(T* symmetric, T value) {
  gravel_copy(symmetric, &value, sizeof(value));
}

uint64_t host_visits = 0;  // written by handlers on the host alone
struct visit {
  static constexpr const char* name = "visit";
  GRAVEL_HANDLER void operator()(const gravel_t& g, uint64_t where, uint32_t add) const {
    gravel_add(g, reinterpret_cast<uint64_t*>(g.heap + where), uint64_t{add}, gravel_my_pe(g));
  }
};
struct visit_host {
  static constexpr const char* name = "visit_host";
  static constexpr bool on_host = true;
  GRAVEL_HANDLER void operator()(const gravel_t&, uint64_t add) const {
#if !GRAVEL_ON_GPU
    gravel::detail::fetch_add_release<gravel::detail::scope::system>(&host_visits, add);
#else
    (void)add;
#endif
  }
};

constexpr int senders = 3;
template <class F>
void in_threads(F work) {
  std::vector<std::thread> all;
  for (int i = 0; i < senders; ++i) all.emplace_back(work, i);
  for (auto& t : all) t.join();
}

// --- one-sided operations of a type, to every PE, the own one too
template <class T>
struct words {
  T put[senders], added, anded, ored, xored, least, most, counter, swapped, got[senders];
};

template <class T>
void check_type(const char* type) {
  const int me = gravel_my_pe(), n = gravel_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
  auto* w = gravel_malloc<words<T>>(sizeof(words<T>));
  if constexpr (gravel::detail::is_atomic_integer<T>) {
    write(&w->anded, static_cast<T>(-1));
    write(&w->least, T{1000});
  }
  gravel_barrier_all();
  std::vector<T> returned(senders);
  in_threads([&](int i) {
    const gravel_t g = gravel_host_handle();
    gravel_put(g, &w->put[i], static_cast<T>(10 * i + me), next);
    for (int pe = 0; pe < n; ++pe) {
      if constexpr (gravel::detail::is_addable<T>) {
        gravel_add(g, &w->added, static_cast<T>(i + 1), pe);
        gravel_inc(g, &w->added, pe);
      }
      if constexpr (gravel::detail::is_atomic_integer<T>) {
        gravel_and(g, &w->anded, static_cast<T>(~(T{1} << i)), pe);
        gravel_or(g, &w->ored, static_cast<T>(T{1} << i), pe);
        gravel_xor(g, &w->xored, static_cast<T>(T{1} << i), pe);
        gravel_min(g, &w->least, static_cast<T>(i + 5), pe);
        gravel_max(g, &w->most, static_cast<T>(i + 5), pe);
      }
    }
    gravel_flush(g);
    if constexpr (gravel::detail::is_addable<T>)
      returned[static_cast<size_t>(i)] = gravel_fetch_add(g, &w->counter, T{1}, next);
    if constexpr (gravel::detail::is_atomic_integer<T>) {
      for (T seen = 0;;) {
        const T found = gravel_compare_swap(g, &w->swapped, seen, static_cast<T>(seen + 1), me);
        if (found == seen) break;
        seen = found;
      }
    }
    gravel_fence(g);
    gravel_get(g, &w->got[i], &w->put[i], next);
    gravel_quiet(g);
    expect(read(&w->got[i]) == static_cast<T>(10 * i + me), "gravel_get from a host thread");
  });
  gravel_barrier_all();
  const words<T> h = read(w);
  for (int i = 0; i < senders; ++i) expect(h.put[i] == static_cast<T>(10 * i + before), type);
  if constexpr (gravel::detail::is_addable<T>) {
    expect(h.added == static_cast<T>(n * (senders * (senders + 1) / 2 + senders)), "gravel_add and gravel_inc");
    T sum = 0;
    for (const T value : returned) sum = static_cast<T>(sum + value);
    expect(h.counter == T{senders} && sum == static_cast<T>(senders * (senders - 1) / 2), "gravel_fetch_add");
  }
  if constexpr (gravel::detail::is_atomic_integer<T>) {
    constexpr T bits = (T{1} << senders) - 1;
    expect(h.anded == static_cast<T>(~bits) && h.ored == bits && h.xored == (n % 2 ? bits : T{0}),
           "gravel_and, gravel_or, gravel_xor");
    expect(h.least == T{5} && h.most == T{senders + 4}, "gravel_min, gravel_max");
    expect(h.swapped == T{senders}, "gravel_compare_swap");
  }
  gravel_free(w);
}

// --- active messages to both kinds of handlers; a host thread waits for both
void check_messages() {
  const int n = gravel_n_pes();
  auto* sum = gravel_malloc<uint64_t>(sizeof(uint64_t));
  const gravel_t g = gravel_host_handle();
  const auto where = static_cast<uint64_t>(reinterpret_cast<char*>(sum) - g.heap);
  constexpr int each = 200;
  in_threads([&](int i) {
    for (int k = 0; k < each; ++k) {
      gravel_am<visit>(g, (i + k) % n, where, 3u);
      gravel_am<visit_host>(g, (i + k) % n, uint64_t{1});
    }
    gravel_flush(g);
  });
  gravel_barrier_all();
  const uint64_t all = gravel_sum_all(read(sum)), sent = uint64_t{senders} * each * static_cast<uint64_t>(n);
  expect(all == 3 * sent, "gravel_am from host threads");
  // Handlers on the host write the program's variables, for which a host thread may wait too.
  const uint64_t mine = gravel::detail::load_acquire(&host_visits);
  expect(gravel_sum_all(mine) == sent, "gravel_am to host handlers");
  gravel_barrier_all();
  gravel_am<visit_host>(g, (gravel_my_pe() + 1) % n, uint64_t{1000});
  gravel_flush(g);
  gravel_wait_until(g, &host_visits, GRAVEL_GE, mine + 1000);
  gravel_barrier_all();
  gravel_free(sum);
}

// --- bulk: from the symmetric heap, from host memory, on CUDA from other device memory; to the next PE and to the own
// one
void check_bulk() {
  const int me = gravel_my_pe(), n = gravel_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
  for (const uint64_t bytes : {1ull, 15ull, 4097ull, 300'001ull}) {
    const uint64_t room = bytes + 32;
    char* from = gravel_malloc<char>(room);
    char* to[3];
    for (char*& t : to) t = gravel_malloc<char>(room);
    std::vector<char> mine(room), wanted(room), got(room);
    for (uint64_t i = 0; i < room; ++i) mine[i] = static_cast<char>(i * 7 + static_cast<uint64_t>(me));
    for (uint64_t i = 0; i < room; ++i) wanted[i] = static_cast<char>(i * 7 + static_cast<uint64_t>(before));
    gravel_copy(from, mine.data(), room);
    gravel_barrier_all();
    in_threads([&](int i) {
      const gravel_t g = gravel_host_handle();
      const uint64_t shift = static_cast<uint64_t>(i);
      if (i == 0) gravel_put_bulk(g, to[0] + 16, from + 16, bytes, next);
      if (i == 1) gravel_put_bulk(g, to[1] + shift, mine.data() + shift, bytes, next);
      if (i == 2) gravel_put_bulk(g, to[2] + shift, from + shift, bytes, me);
    });
    gravel_barrier_all();
    const uint64_t shifts[] = {16, 1, 2};
    for (int i = 0; i < 3; ++i) {
      gravel_copy(got.data(), to[i], room);
      const std::vector<char>& right = i == 2 ? mine : wanted;
      expect(std::memcmp(got.data() + shifts[i], right.data() + shifts[i], bytes) == 0,
             "gravel_put_bulk from a host thread");
      for (uint64_t at = 0; at < room; ++at) {
        if ((at >= shifts[i] && at < shifts[i] + bytes) || got[at] == 0) continue;
        expect(false, "bytes beside gravel_put_bulk");
        fprintf(stderr, "PE %d: put %d of %llu bytes: byte %llu is %d\n", me, i, static_cast<unsigned long long>(bytes),
                static_cast<unsigned long long>(at), got[at]);
        break;
      }
    }
#if GRAVEL_CUDA
    gravel_barrier_all();  // all have read what lies in to[0]
    char* other = nullptr;
    gravel::detail::cuda_check(cudaMalloc(&other, room), "cudaMalloc");
    gravel_copy(other, mine.data(), room);
    gravel_put_bulk(gravel_host_handle(), to[0], other, bytes, next);
    gravel_barrier_all();
    gravel_copy(got.data(), to[0], room);
    expect(std::memcmp(got.data(), wanted.data(), bytes) == 0, "gravel_put_bulk from other device memory");
    gravel::detail::cuda_check(cudaFree(other), "cudaFree");
#endif
    for (char* t : to) gravel_free(t);
    gravel_free(from);
  }
}

// --- waiting: data, fence, flag between host threads; and between a kernel and a host thread
__global__ void answer(gravel_t g, uint64_t* flag, uint64_t* reply, int pe) {
  gravel_wait_until(g, flag, GRAVEL_EQ, 7);
  gravel_put(g, reply, uint64_t{8}, pe);
}

void check_waiting() {
  const int me = gravel_my_pe(), n = gravel_n_pes(), next = (me + 1) % n, before = (me + n - 1) % n;
  auto* data = gravel_malloc<uint64_t>(4 * sizeof(uint64_t));
  auto* small = gravel_malloc<uint8_t>(1);
  uint64_t *flag = data + 1, *question = data + 2, *reply = data + 3;
  const gravel_t g = gravel_host_handle();
  std::thread sender([&] {
    gravel_put(g, data, static_cast<uint64_t>(40 + me), next);
    gravel_fence(g);
    gravel_put(g, flag, uint64_t{1}, next);
    gravel_put(g, small, uint8_t{9}, next);
    gravel_flush(g);
  });
  gravel_wait_until(g, flag, GRAVEL_EQ, 1);
  expect(read(data) == static_cast<uint64_t>(40 + before), "what was sent before the flag");
  gravel_wait_until(g, small, GRAVEL_GT, 8);
  sender.join();
  gravel_barrier_all();
  expect(gravel_ptr(g, data, me) == (GRAVEL_CUDA ? nullptr : data), "gravel_ptr on the host, own PE");
  expect(gravel_ptr(g, data, n) == nullptr, "gravel_ptr on the host, no PE");
  std::thread launcher([&] { gravel_launch(answer, 1, 1, gravel_handle(), question, reply, before); });
  gravel_put(g, question, uint64_t{7}, next);
  gravel_flush(g);
  gravel_wait_until(g, reply, GRAVEL_NE, 0);
  expect(read(reply) == 8, "the kernel's answer");
  launcher.join();
  gravel_barrier_all();
  gravel_free(small);
  gravel_free(data);
}

}  // namespace

int main() {
  gravel_init<visit, visit_host>();
  check_type<uint8_t>("gravel_put uint8_t");
  check_type<int16_t>("gravel_put int16_t");
  check_type<int32_t>("gravel_put int32_t");
  check_type<uint64_t>("gravel_put uint64_t");
  check_type<float>("gravel_put float");
  check_type<double>("gravel_put double");
  check_messages();
  check_bulk();
  check_waiting();
  const uint64_t all = gravel_sum_all(static_cast<uint64_t>(failures.load()));
  if (gravel_my_pe() == 0)
    printf("%s: %d PEs on %d nodes, %s\n", all ? "FAILED" : "ok", gravel_n_pes(), gravel_n_nodes(), gravel_backend());
  gravel_finalize();
  return all ? 1 : 0;
}
