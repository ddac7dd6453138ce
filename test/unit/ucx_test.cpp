// Two workers in one process, and two processes. Run with several values of UCX_TLS (see meson.build).
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "test/support/catch.hpp"
#include "transport/ucx_endpoint.hpp"
#include "transport/ucx_quirks.hpp"
#include "transport/ucx_wire.hpp"

using namespace gravel::detail;

extern char** environ;

namespace {

constexpr std::byte poison{0xA5};
enum message : unsigned { notice = 1, credit, stop, report, start_stall };

/// Memory as a segment of a PE has it: mapped from a memfd.
struct shared_memory {
  explicit shared_memory(size_t bytes) : bytes(bytes) {
    REQUIRE(file >= 0);
    REQUIRE(ftruncate(file, bytes) == 0);
    void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    REQUIRE(mapped != MAP_FAILED);
    data = static_cast<std::byte*>(mapped);
  }
  ~shared_memory() {
    munmap(data, bytes);
    close(file);
  }
  shared_memory(const shared_memory&) = delete;
  std::span<std::byte> all() { return {data, bytes}; }
  int file = memfd_create("ucx_test", MFD_CLOEXEC);
  std::byte* data;
  size_t bytes;
};

void fill(std::span<std::byte> bytes, unsigned seed) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte((i * 131 + i / 256 + seed) & 0xff);
}

/// Counts how often and how an operation ended.
struct outcome {
  int calls = 0;
  ucs_status_t status = UCS_OK;
  static void note(void* self, ucs_status_t status) {
    ++static_cast<outcome*>(self)->calls;
    static_cast<outcome*>(self)->status = status;
  }
};

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <class T>
T value_of(std::span<const std::byte> bytes) {
  REQUIRE(bytes.size() == sizeof(T));
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// Two workers of one process, connected both ways.
struct pair_of_workers {
  ucx_context context{2};
  ucx_worker a{context}, b{context};
  std::optional<ucx_endpoint> to_b{std::in_place, a, b.address(), "worker b"};
  std::optional<ucx_endpoint> to_a{std::in_place, b, a.address(), "worker a"};

  template <class F>
  void until(F&& condition) {
    while (!condition())
      if (!(a.progress() | b.progress())) sched_yield();
  }
};

// The other process of a test is this program again; a socket brings its commands.
void send_blob(int socket, std::span<const std::byte> blob) {
  const uint64_t bytes = blob.size();
  REQUIRE(write(socket, &bytes, sizeof bytes) == ssize_t(sizeof bytes));
  REQUIRE(write(socket, blob.data(), bytes) == ssize_t(bytes));
}

std::vector<std::byte> receive_blob(int socket) {
  uint64_t bytes = 0;
  REQUIRE(recv(socket, &bytes, sizeof bytes, MSG_WAITALL) == ssize_t(sizeof bytes));
  std::vector<std::byte> blob(bytes);
  REQUIRE(recv(socket, blob.data(), bytes, MSG_WAITALL) == ssize_t(bytes));
  return blob;
}

/// This side's end of a connection between two processes: a landing area that the other may put into.
struct party {
  static constexpr size_t slot_bytes = 65536, slots = 3;

  party(int socket, const std::string& peer) {
    send_blob(socket, worker.address());
    endpoint.emplace(worker, receive_blob(socket), peer);
    send_blob(socket, landing.packed_key());
    remote = ucx_remote_memory(*endpoint, receive_blob(socket));
  }
  template <class F>
  void until(F&& condition) {
    while (!condition())
      if (!worker.progress()) sched_yield();
  }

  ucx_context context{1};
  shared_memory memory{slot_bytes * slots};
  ucx_memory landing{context, memory.data, memory.bytes};
  ucx_worker worker{context};
  std::optional<ucx_endpoint> endpoint;
  ucx_remote_memory remote;
};

struct second_process {
  explicit second_process(const char* role = "the second process") {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    REQUIRE(fcntl(ends[0], F_SETFD, FD_CLOEXEC) == 0);
    socket = ends[0];
    setenv("TEST_SOCKET", std::to_string(ends[1]).c_str(), 1);
    const char* arguments[] = {"ucx_test", role, nullptr};
    REQUIRE(posix_spawn(&pid, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments), environ) == 0);
    unsetenv("TEST_SOCKET");
    close(ends[1]);
  }
  ~second_process() {
    end(SIGKILL);
    close(socket);
  }
  /// Its wait status.
  int end(int signal) {
    if (signal && pid > 0) kill(pid, signal);
    if (pid > 0) waitpid(pid, &status, 0);
    pid = 0;
    return status;
  }
  pid_t pid = 0;
  int status = -1;
  int socket = -1;
};

struct notice_header {
  uint64_t sequence;
  uint64_t slot;
  uint64_t bytes;
  uint64_t padding[5];  // as long as the aggregator's
};

uint64_t word_of(uint64_t sequence, uint64_t index) { return (sequence + 1) * 0x9e3779b97f4a7c15u + index; }

}  // namespace

TEST_CASE("version and transports") {
  CHECK(ucx_version().find('.') != std::string::npos);
  const auto transports = ucx_transports();
  // Every machine has it; the name of its device differs between releases.
  CHECK(std::any_of(transports.begin(), transports.end(), [](const auto& t) { return t.starts_with("self/memory"); }));
}

TEST_CASE("what this UCX prints has the form that is known") {
  CHECK(knows_ucx(ucx_release()));  // another version: run these tests, then read transport/ucx_quirks.hpp
  CHECK_FALSE(knows_ucx(1012));
  CHECK_FALSE(knows_ucx(2000));
  pair_of_workers pair;
  const char* const tls = std::getenv("UCX_TLS");
  const std::string transports = tls ? tls : "";
  const auto context = uses_shared_memory(printed(pair.context.handle()));
  REQUIRE(context);
  if (transports != "")
    CHECK(*context == (transports.find("posix") != std::string::npos || transports.find("sysv") != std::string::npos));
  const std::string endpoint = pair.to_b->describe();
  INFO(endpoint);
  REQUIRE(sends_messages_over_tcp(endpoint));
  if (transports == "tcp") CHECK(*sends_messages_over_tcp(endpoint));
  if (transports == "posix,self") CHECK_FALSE(*sends_messages_over_tcp(endpoint));
  CHECK(pair.to_b->prefers_messages() == *sends_messages_over_tcp(endpoint));
}

TEST_CASE("texts of another form are no answer, and the safe way is taken") {
  for (const char* text : {"", "transports: posix, tcp", "channel 0: tcp/eth0 am"}) {
    CHECK_FALSE(uses_shared_memory(text));
    CHECK_FALSE(sends_messages_over_tcp(text));
    CHECK(seen_in(text, uses_shared_memory, true));
    CHECK_FALSE(seen_in(text, sends_messages_over_tcp, false));
  }
  const std::string lanes = "#  lane[0]:  2:tcp/eth0.0 md[1] -> md[1]/tcp/sysdev[255] rma_bw#0 am am_bw#0 wireup\n";
  CHECK(sends_messages_over_tcp(lanes) == true);
  CHECK(sends_messages_over_tcp(
            "#  lane[0]:  5:posix/memory.0 md[3] -> md[3]/posix am\n#  lane[1]: 2:tcp/eth0.0 md[1] rma_bw#0\n") ==
        false);
  CHECK(uses_shared_memory("#      resource 0  :  md 0  dev 0  flags -- self/memory0\n") == false);
  CHECK(uses_shared_memory("#      resource 9  :  md 4  dev 3  flags -- posix/memory\n") == true);
}

TEST_CASE("shared memory that UCX makes has no name, and is the user's alone") {
  const int segment = shm_open("/ucx_shm_posix_gravel_test", O_CREAT | O_EXCL | O_RDWR, 0600);
  REQUIRE(segment >= 0);
  CHECK(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(segment)).string().starts_with("/memfd:"));
  CHECK_FALSE(std::filesystem::exists("/dev/shm/ucx_shm_posix_gravel_test"));
  CHECK(shm_unlink("/ucx_shm_posix_gravel_test") == 0);
  close(segment);
  // Files of others are left alone.
  const std::string name = "/gravel_test_" + std::to_string(getpid());
  const int other = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
  REQUIRE(other >= 0);
  CHECK(std::filesystem::exists("/dev/shm" + name));
  CHECK(shm_unlink(name.c_str()) == 0);
  close(other);
  const int old = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0666);
  REQUIRE(old >= 0);
  shmid_ds about{};
  CHECK(shmctl(old, IPC_STAT, &about) == 0);
  CHECK((about.shm_perm.mode & 0777) == 0600);
  shmctl(old, IPC_RMID, nullptr);
}

TEST_CASE("an unusable UCX_TLS is named") {
  const char* before = std::getenv("UCX_TLS");
  const std::string saved = before ? before : "";
  setenv("UCX_TLS", "carrier-pigeon", 1);
  CHECK_THROWS_WITH(ucx_context(1), contains_text("carrier-pigeon"));
  before ? setenv("UCX_TLS", saved.c_str(), 1) : unsetenv("UCX_TLS");
}

TEST_CASE("a put writes its bytes and no others") {
  pair_of_workers pair;
  constexpr size_t margin = 4096, most = 1 << 20;
  shared_memory source(most), target(most + 2 * margin);
  const ucx_memory local(pair.context, source.data, source.bytes);
  const ucx_memory landing(pair.context, target.data, target.bytes);
  const ucx_remote_memory remote(*pair.to_b, landing.packed_key());
  CHECK(remote.bytes() == target.bytes);
  CHECK(remote.address() == reinterpret_cast<uint64_t>(target.data));
  unsigned seed = 0;
  for (size_t bytes : {size_t(1), size_t(2), size_t(7), size_t(8), size_t(63), size_t(64), size_t(1000), size_t(4096),
                       size_t(8191), size_t(8193), size_t(65536), size_t(65537), most - 1, most})
    for (size_t shift : {size_t(0), size_t(3)}) {
      if (bytes + shift > most) continue;
      INFO(bytes << " bytes, shifted by " << shift);
      fill(source.all(), ++seed);
      std::memset(target.data, int(poison), target.bytes);
      outcome put;
      pair.to_b->put(source.data + shift, bytes, local, remote.address() + margin + shift, remote, outcome::note, &put);
      CHECK(put.calls == 0);  // never from inside the call
      pair.until([&] { return put.calls > 0; });
      CHECK(put.calls == 1);
      CHECK(put.status == UCS_OK);
      CHECK(std::memcmp(target.data + margin + shift, source.data + shift, bytes) == 0);
      const auto untouched = [](std::byte byte) { return byte == poison; };
      CHECK(std::all_of(target.data, target.data + margin + shift, untouched));
      CHECK(std::all_of(target.data + margin + shift + bytes, target.data + target.bytes, untouched));
    }
}

TEST_CASE("on one machine a put into a file's beginning needs no process at the other end") {
  pair_of_workers pair;
  constexpr size_t most = 1 << 20, behind = 4096;
  shared_memory source(most), target(most + behind);
  const ucx_memory local(pair.context, source.data, source.bytes);
  std::memset(target.data + most, int(poison), behind);
  const ucx_memory landing(pair.context, target.file, target.data, most);
  const ucx_remote_memory remote(*pair.to_b, landing.packed_key());
  CHECK(remote.bytes() == most);
  const std::string transports = std::getenv("UCX_TLS") ? std::getenv("UCX_TLS") : "";
  const bool is_shared = landing.address() != target.data;
  if (transports == "" || transports == "posix,self") CHECK(is_shared);
  if (transports == "tcp" || transports == "tcp,self") CHECK_FALSE(is_shared);
  unsigned seed = 0;
  for (size_t bytes : {size_t(1), size_t(64), size_t(8193), most - 3, most}) {
    INFO(bytes << " bytes");
    fill(source.all(), ++seed);
    std::memset(target.data, 0, most);
    outcome put;
    pair.to_b->put(source.data, bytes, local, remote.address() + most - bytes, remote, outcome::note, &put);
    if (is_shared)
      for (int i = 0; i < 1000 && put.calls == 0; ++i) pair.a.progress();
    else pair.until([&] { return put.calls > 0; });
    REQUIRE(put.calls == 1);
    CHECK(put.status == UCS_OK);
    CHECK(std::memcmp(target.data + most - bytes, source.data, bytes) == 0);
    CHECK(std::all_of(target.data, target.data + most - bytes, [](std::byte byte) { return byte == std::byte{}; }));
    CHECK(std::all_of(target.data + most, target.data + target.bytes, [](std::byte byte) { return byte == poison; }));
  }
}

TEST_CASE("an address out of bounds is refused before UCX sees it") {
  pair_of_workers pair;
  shared_memory source(8192), target(8192);
  const ucx_memory local(pair.context, source.data, source.bytes);
  const ucx_memory landing(pair.context, target.data, target.bytes);
  const ucx_remote_memory remote(*pair.to_b, landing.packed_key());
  const auto put = [&](const std::byte* from, size_t bytes, uint64_t to, const ucx_remote_memory& into) {
    pair.to_b->put(from, bytes, local, to, into, nullptr, nullptr);
  };
  const uint64_t base = remote.address();
  CHECK_THROWS_WITH(put(source.data + 1, 8192, base, remote), contains_text("worker b"));
  CHECK_THROWS_AS(put(source.data - 1, 1, base, remote), error);
  CHECK_THROWS_WITH(put(source.data, 8192, base + 1, remote), contains_text("worker b"));
  CHECK_THROWS_AS(put(source.data, 1, base - 1, remote), error);
  CHECK_THROWS_AS(put(source.data, 1, base + 8192, remote), error);
  CHECK_THROWS_AS(put(source.data, ~size_t(0), base, remote), error);
  CHECK_THROWS_AS(put(source.data, 1, base, ucx_remote_memory()), error);
  CHECK_THROWS_AS(put(source.data, 1, base, ucx_remote_memory(*pair.to_a, landing.packed_key())), error);
  const std::vector<std::byte> long_header(pair.a.max_header() + 1);
  CHECK_THROWS_WITH(pair.to_b->send_am(notice, long_header, {}, nullptr, nullptr), contains_text("worker b"));
  CHECK_THROWS_AS(pair.a.on_am(65536, nullptr, nullptr), error);
  CHECK_THROWS_AS(ucx_memory(pair.context, nullptr, 4096), error);
}

TEST_CASE("garbage instead of an address or a key is refused") {
  pair_of_workers pair;
  shared_memory target(4096);
  const ucx_memory landing(pair.context, target.data, target.bytes);
  const auto address = pair.b.address(), key = landing.packed_key();
  const auto refused = [&](std::span<const std::byte> blob) {
    CHECK_THROWS_WITH(ucx_endpoint(pair.a, blob, "node 7"), contains_text("node 7"));
    CHECK_THROWS_WITH(ucx_remote_memory(*pair.to_b, blob), contains_text("worker b"));
  };
  CHECK_THROWS_AS(ucx_endpoint(pair.a, key, "node 7"), error);
  CHECK_THROWS_AS(ucx_remote_memory(*pair.to_b, address), error);
  for (const auto* blob : {&address, &key}) {
    for (size_t bytes = 0; bytes < blob->size(); ++bytes) refused(std::span(*blob).first(bytes));
    for (size_t bit = 0; bit < blob->size() * 8; bit += 3) {
      auto damaged = *blob;
      damaged[bit / 8] ^= std::byte(1 << bit % 8);
      refused(damaged);
    }
    auto longer = *blob;
    longer.push_back({});
    refused(longer);
  }
  refused(to_wire(ucx_memory_key{ucx_release(), 0, 0, {}}));
  ucx_memory_key other = read_of_ucx<ucx_memory_key>(key, "worker b");
  other.release += 1000;
  CHECK_THROWS_WITH(ucx_remote_memory(*pair.to_b, to_wire(other)), contains_text("install one release of UCX"));
}

TEST_CASE("active messages of all sizes") {
  pair_of_workers pair;
  struct received {
    std::vector<std::byte> header, data;
    int calls = 0;
  } last;
  pair.b.on_am(
      notice,
      [](void* context, std::span<const std::byte> header, std::span<const std::byte> data) {
        auto& to = *static_cast<received*>(context);
        to.header.assign(header.begin(), header.end());
        to.data.assign(data.begin(), data.end());
        ++to.calls;
      },
      &last);
  unsigned seed = 0;
  for (size_t header_bytes : {size_t(0), size_t(1), size_t(64), pair.a.max_header()})
    for (size_t bytes : {0, 1, 8, 64, 1000, 4096, 8000, 8192, 20000, 65536})
      for (bool buffered : {false, true}) {
        INFO(header_bytes << " + " << bytes << " bytes" << (buffered ? ", buffered" : ""));
        std::vector<std::byte> header(header_bytes), data(bytes);
        fill(header, ++seed);
        fill(data, ++seed);
        const auto sent_header = header, sent_data = data;
        outcome sent;
        last.calls = 0;
        pair.to_b->send_am(notice, header, data, buffered ? nullptr : outcome::note, &sent);
        std::fill(header.begin(), header.end(), poison);
        if (buffered) std::fill(data.begin(), data.end(), poison);
        pair.until([&] { return last.calls && (buffered || sent.calls); });
        CHECK(last.calls == 1);
        CHECK(sent.calls == !buffered);
        CHECK(sent.status == UCS_OK);
        CHECK(last.header == sent_header);
        CHECK(last.data == sent_data);
      }
}

TEST_CASE("many operations in flight end once each") {
  pair_of_workers pair;
  constexpr size_t count = 2000, bytes = 512;
  shared_memory source(count * bytes), target(count * bytes);
  fill(source.all(), 5);
  const ucx_memory local(pair.context, source.data, source.bytes);
  const ucx_memory landing(pair.context, target.data, target.bytes);
  const ucx_remote_memory remote(*pair.to_b, landing.packed_key());
  struct counters {
    uint64_t messages = 0, wrong = 0;
  } seen;
  pair.b.on_am(
      notice,
      [](void* context, std::span<const std::byte> header, std::span<const std::byte>) {
        auto& to = *static_cast<counters*>(context);
        to.wrong += value_of<uint64_t>(header) != to.messages++;
      },
      &seen);
  std::vector<outcome> puts(count), messages(count);
  for (uint64_t i = 0; i < count; ++i) {
    pair.to_b->put(source.data + i * bytes, bytes, local, remote.address() + i * bytes, remote, outcome::note,
                   &puts[i]);
    pair.to_b->send_am(notice, bytes_of(i), {source.data, 128}, outcome::note, &messages[i]);
  }
  const auto ended = [](const outcome& o) { return o.calls > 0; };
  pair.until([&] {
    return seen.messages == count && std::all_of(puts.begin(), puts.end(), ended) &&
           std::all_of(messages.begin(), messages.end(), ended);
  });
  for (int i = 0; i < 1000; ++i) {
    pair.a.progress();
    pair.b.progress();
  }
  CHECK(seen.wrong == 0);
  const auto once = [](const outcome& o) { return o.calls == 1 && o.status == UCS_OK; };
  CHECK(std::all_of(puts.begin(), puts.end(), once));
  CHECK(std::all_of(messages.begin(), messages.end(), once));
  CHECK(std::memcmp(source.data, target.data, source.bytes) == 0);
}

TEST_CASE("an exception of a callback leaves progress, and the worker goes on") {
  pair_of_workers pair;
  static int handled;
  handled = 0;
  pair.b.on_am(
      notice,
      [](void*, std::span<const std::byte>, std::span<const std::byte>) {
        if (++handled == 1) throw error("the handler's own");
      },
      nullptr);
  const auto send = [&] { pair.to_b->send_am(notice, {}, {}, nullptr, nullptr); };
  send();
  CHECK_THROWS_WITH(pair.until([] { return handled > 1; }), contains_text("the handler's own"));
  send();
  pair.until([] { return handled > 1; });
  pair.a.on_am(
      notice, [](void* worker, auto, auto) { static_cast<ucx_worker*>(worker)->progress(); }, &pair.a);
  pair.to_a->send_am(notice, {}, {}, nullptr, nullptr);
  CHECK_THROWS_WITH(pair.until([] { return false; }), contains_text("callback"));
  const done_callback throwing = [](void*, ucs_status_t) { throw error("done's own"); };
  pair.to_b->send_am(notice, {}, {reinterpret_cast<const std::byte*>(&handled), sizeof(handled)}, throwing, nullptr);
  CHECK_THROWS_WITH(pair.until([] { return false; }), contains_text("done's own"));
}

TEST_CASE("destroying an endpoint ends its pending operations") {
  pair_of_workers pair;
  shared_memory source(1 << 20), target(1 << 20);
  const ucx_memory local(pair.context, source.data, source.bytes);
  const ucx_memory landing(pair.context, target.data, target.bytes);
  const ucx_remote_memory remote(*pair.to_b, landing.packed_key());
  pair.b.expect_disconnects();
  std::vector<outcome> ended(200);
  for (auto& put : ended)
    pair.to_b->put(source.data, source.bytes, local, remote.address(), remote, outcome::note, &put);
  for (int i = 0; i < 3; ++i) pair.a.progress();
  pair.to_b.reset();
  for (int i = 0; i < 1000; ++i) {
    pair.a.progress();
    pair.b.progress();
  }
  CHECK(std::all_of(ended.begin(), ended.end(), [](const outcome& o) { return o.calls == 1; }));
  CHECK(ended.back().status == UCS_ERR_CANCELED);
}

TEST_CASE("closing is orderly") {
  pair_of_workers pair;
  static int handled;
  handled = 0;
  std::string reported;
  for (ucx_worker* worker : {&pair.a, &pair.b}) {
    worker->on_am(
        notice, [](void*, auto, auto) { ++handled; }, nullptr);
    worker->on_error([&](const std::string& text) { reported += text; });
  }
  pair.to_b->send_am(notice, {}, {}, nullptr, nullptr);
  pair.to_a->send_am(notice, {}, {}, nullptr, nullptr);
  pair.until([] { return handled == 2; });
  // A message that was sent before the closing arrives, although no one waited for it.
  const std::vector<std::byte> data(8000);
  for (int i = 0; i < 50; ++i) pair.to_b->send_am(notice, {}, data, nullptr, nullptr);
  pair.a.expect_disconnects();
  pair.b.expect_disconnects();
  pair.a.start_closing();
  CHECK_THROWS_AS(pair.to_b->send_am(notice, {}, {}, nullptr, nullptr), error);
  pair.until([&] { return pair.a.closed(); });
  pair.to_b.reset();
  pair.until([] { return handled == 52; });
  pair.b.start_closing();
  pair.until([&] { return pair.b.closed(); });
  CHECK(pair.a.close_endpoints(std::chrono::seconds(0)));
  CHECK(reported == "");
}

TEST_CASE("messages are preferred over TCP, puts elsewhere") {
  pair_of_workers pair;
  const std::string transports = std::getenv("UCX_TLS") ? std::getenv("UCX_TLS") : "";
  INFO(pair.to_b->describe());
  if (transports == "tcp" || transports == "tcp,self") CHECK(pair.to_b->prefers_messages());
  if (transports == "" || transports == "sysv" || transports == "posix,self")
    CHECK_FALSE(pair.to_b->prefers_messages());
}

TEST_CASE("threads with a worker each share a context") {
  constexpr unsigned threads = 3;
  static constexpr size_t bytes = 16384;
  ucx_context context(2 * threads);
  shared_memory source(threads * bytes), target(threads * bytes);
  fill(source.all(), 9);
  const ucx_memory local(context, source.data, source.bytes), landing(context, target.data, target.bytes);
  std::string failures[threads];
  const auto run = [&](unsigned number) {
    ucx_worker near(context), far(context);
    ucx_endpoint forth(near, far.address(), "far"), back(far, near.address(), "near");
    const ucx_remote_memory remote(forth, landing.packed_key());
    struct notices {
      const std::byte *expected, *found;
      int arrived = 0, wrong = 0;
    } seen{source.data + number * bytes, target.data + number * bytes};
    far.on_am(
        notice,
        [](void* context, auto, auto) {
          auto& to = *static_cast<notices*>(context);
          ++to.arrived;
          to.wrong += std::memcmp(to.expected, to.found, bytes) != 0;
        },
        &seen);
    for (int round = 1; round <= 300; ++round) {
      std::memset(target.data + number * bytes, int(poison), bytes);
      forth.put(
          seen.expected, bytes, local, remote.address() + number * bytes, remote,
          [](void* endpoint, ucs_status_t) {
            static_cast<ucx_endpoint*>(endpoint)->send_am(notice, {}, {}, nullptr, nullptr);
          },
          &forth);
      while (seen.arrived < round)
        if (!(near.progress() | far.progress())) sched_yield();
    }
    if (seen.wrong) failures[number] = std::to_string(seen.wrong) + " notices came before their data";
    near.expect_disconnects();
    far.expect_disconnects();
  };
  std::vector<std::thread> running;
  for (unsigned number = 0; number < threads; ++number)
    running.emplace_back([&, number] {
      try {
        run(number);
      } catch (const std::exception& e) {
        failures[number] = e.what();
      }
    });
  for (auto& thread : running) thread.join();
  for (const auto& failure : failures) CHECK(failure == "");
}

TEST_CASE("two processes: no notice overtakes its data") {
  constexpr uint64_t packets = 10000;
  second_process child;
  std::optional<party> here(std::in_place, child.socket, "the second process");
  party& self = *here;
  shared_memory staging(party::slot_bytes * party::slots);
  std::optional<ucx_memory> local(std::in_place, self.context, staging.data, staging.bytes);
  struct sender {
    party& self;
    bool busy[party::slots] = {};
    notice_header headers[party::slots] = {};
    uint64_t ended = 0;
    int failures = 0;
    std::optional<uint64_t> wrong_words = std::nullopt;
  } state{self};
  struct slot_of_sender {
    sender* state;
    unsigned slot;
  } slots[party::slots] = {{&state, 0}, {&state, 1}, {&state, 2}};
  self.worker.on_am(
      credit,
      [](void* context, std::span<const std::byte> header, auto) {
        auto& to = *static_cast<sender*>(context);
        to.busy[value_of<uint64_t>(header)] = false;
        ++to.ended;
      },
      &state);
  self.worker.on_am(
      report,
      [](void* context, std::span<const std::byte> header, auto) {
        static_cast<sender*>(context)->wrong_words = value_of<uint64_t>(header);
      },
      &state);
  for (uint64_t sequence = 0; sequence < packets;) {
    for (unsigned slot = 0; slot < party::slots && sequence < packets; ++slot) {
      if (state.busy[slot]) continue;
      state.busy[slot] = true;
      const uint64_t words = 1 + (sequence * 2654435761u) % (party::slot_bytes / 8);
      const size_t offset = slot * party::slot_bytes;
      for (uint64_t i = 0; i < words; ++i) reinterpret_cast<uint64_t*>(staging.data + offset)[i] = word_of(sequence, i);
      state.headers[slot] = {sequence, slot, words * 8, {}};
      ++sequence;
      self.endpoint->put(
          staging.data + offset, words * 8, *local, self.remote.address() + offset, self.remote,
          [](void* argument, ucs_status_t status) {
            auto& [to, slot] = *static_cast<slot_of_sender*>(argument);
            to->failures += status != UCS_OK;
            to->self.endpoint->send_am(notice, bytes_of(to->headers[slot]), {}, nullptr, nullptr);
          },
          &slots[slot]);
    }
    if (!self.worker.progress()) sched_yield();
  }
  self.until([&] { return state.ended == packets; });
  self.endpoint->send_am(stop, {}, {}, nullptr, nullptr);
  self.until([&] { return state.wrong_words.has_value(); });
  CHECK(state.failures == 0);
  CHECK(*state.wrong_words == 0);
  self.worker.expect_disconnects();
  CHECK(write(child.socket, "x", 1) == 1);  // both have seen the end of the traffic: the barrier of a real job
  CHECK(self.worker.close_endpoints(std::chrono::seconds(100)));
  local.reset();
  here.reset();  // the other end needs this worker either to make progress or to be gone
  CHECK(child.end(0) == 0);
}

TEST_CASE("two processes: killed with SIGKILL") {
  // A stalled peer leaves queues full.
  const std::string state = GENERATE(as<std::string>{}, "idle", "in traffic", "stalled");
  INFO(state);
  second_process child;
  party self(child.socket, "the second process");
  REQUIRE(self.endpoint->notices_death());
  std::vector<std::string> reported;
  self.worker.on_error([&](const std::string& text) { reported.push_back(text); });
  shared_memory staging(party::slot_bytes);
  const ucx_memory local(self.context, staging.data, staging.bytes);
  std::deque<outcome> operations;
  const auto post = [&] {
    const notice_header header{~0ull, 0, 0, {}};
    self.endpoint->put(staging.data, staging.bytes, local, self.remote.address(), self.remote, outcome::note,
                       &operations.emplace_back());
    self.endpoint->send_am(credit, bytes_of(header), {staging.data, 4096}, outcome::note, &operations.emplace_back());
    self.endpoint->send_am(credit, bytes_of(header), {staging.data, 4096}, nullptr, nullptr);
  };
  const auto pending = [&] {
    return size_t(std::count_if(operations.begin(), operations.end(), [](const auto& o) { return !o.calls; }));
  };
  post();
  self.until([&] { return pending() == 0; });  // connected
  if (state == "stalled") self.endpoint->send_am(start_stall, {}, {}, nullptr, nullptr);
  if (state != "idle") {
    for (int i = 0; i < 2000; ++i) {
      post();
      self.worker.progress();
    }
    if (state == "stalled") CHECK(pending() > 0);
  }
  kill(child.pid, SIGKILL);  // and left a zombie, as a busy or missing parent would
  while (!self.endpoint->failed()) {
    if (state == "in traffic" && pending() < 100) post();
    if (!self.worker.progress()) sched_yield();
  }
  CHECK(pending() == 0);
  CHECK(reported.size() == 1);
  CHECK_THAT(reported.at(0), contains_text("the second process"));
  const size_t before = operations.size();
  post();
  self.until([&] { return pending() == 0; });
  for (size_t i = before; i < operations.size(); ++i) CHECK(operations[i].status != UCS_OK);
  for (int i = 0; i < 1000; ++i) self.worker.progress();
  CHECK(std::all_of(operations.begin(), operations.end(), [](const outcome& o) { return o.calls == 1; }));
  CHECK(reported.size() == 1);
}

TEST_CASE("two processes: one dies while keys are exchanged") {
  const bool connected = GENERATE(true, false);
  INFO((connected ? "after" : "before") << " there is an endpoint to it");
  second_process child("the process that dies");
  const auto address = receive_blob(child.socket), key = receive_blob(child.socket);
  ucx_context context(1);
  ucx_worker worker(context);
  std::vector<std::string> reported;
  worker.on_error([&](const std::string& text) { reported.push_back(text); });
  const auto connect = [&] { return std::make_unique<ucx_endpoint>(worker, address, "the process that dies"); };
  std::unique_ptr<ucx_endpoint> endpoint;
  if (connected) endpoint = connect();
  child.end(SIGKILL);  // nothing of it is left in /proc
  // Its death is reported: by UCX at once, or by the endpoint later. This process must not end.
  try {
    if (!connected) endpoint = connect();
    const ucx_remote_memory remote(*endpoint, key);
    CHECK(remote.bytes() == party::slot_bytes);
    shared_memory source(party::slot_bytes);
    const ucx_memory local(context, source.data, source.bytes);
    outcome put;
    endpoint->put(source.data, source.bytes, local, remote.address(), remote, outcome::note, &put);
    while (!endpoint->failed() || !put.calls)
      if (!worker.progress()) sched_yield();
    CHECK(put.calls == 1);
    CHECK(reported.size() == 1);
    CHECK_THAT(reported.at(0), contains_text("the process that dies"));
  } catch (const error& e) {
    CHECK_THAT(e.what(), contains_text("the process that dies"));
  }
  // Only for keys, and only in that moment.
  CHECK(open(("/proc/" + std::to_string(INT_MAX) + "/fd/0").c_str(), O_RDWR) == -1);
}

TEST_CASE("a process that gets a signal to end while it starts UCX leaves no System V segment behind") {
  // The first is made when its library is loaded: spawn_aggregator blocks the signal, and the aggregator's main allows
  // it.
  const int number = GENERATE(1, 2);
  INFO("segment " << number);
  const pid_t child = fork();
  if (child == 0) {
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, nullptr);
    dup2(open("/dev/null", O_WRONLY), 1);  // its Catch reports the signal
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(77);
    raise(SIGSTOP);
    execl("/proc/self/exe", "ucx_test", "the process that starts UCX", nullptr);
    _exit(99);
  }
  int status = 0, segment = -1, made = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
    WARN("skipped: no process may trace another here");
    return;
  }
  ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
  constexpr int at_call = SIGTRAP | 0x80;
  uint64_t call = 0;
  for (long signal = 0;; signal = WSTOPSIG(status) == at_call || WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status)) {
    ptrace(PTRACE_SYSCALL, child, nullptr, signal);
    REQUIRE(waitpid(child, &status, 0) == child);
    if (!WIFSTOPPED(status)) break;
    __ptrace_syscall_info info{};
    if (WSTOPSIG(status) != at_call || ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0) continue;
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) call = info.entry.nr;
    if (info.op != PTRACE_SYSCALL_INFO_EXIT || call != SYS_shmget || info.exit.rval < 0 || ++made != number) continue;
    segment = static_cast<int>(info.exit.rval);
    kill(child, SIGTERM);
  }
  if (segment == -1) {
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    return;  // this UCX makes no more
  }
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
  shmid_ds about{};
  const bool is_left = shmctl(segment, IPC_STAT, &about) == 0;
  CHECK_FALSE(is_left);
  if (is_left) shmctl(segment, IPC_RMID, nullptr);
}

TEST_CASE("the process that starts UCX", "[.]") {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  ucx_context context(1);
  const ucx_worker worker(context);
}

TEST_CASE("the process that dies", "[.]") {
  const char* number = std::getenv("TEST_SOCKET");
  if (!number) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int socket = std::atoi(number);
  ucx_context context(1);
  ucx_worker worker(context);
  shared_memory memory(party::slot_bytes);
  const ucx_memory landing(context, memory.file, memory.data, memory.bytes);  // UCX's own, if it shares memory
  send_blob(socket, worker.address());
  send_blob(socket, landing.packed_key());
  for (;;) pause();
}

TEST_CASE("the second process", "[.]") {
  const char* number = std::getenv("TEST_SOCKET");
  if (!number) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // even where it stalls
  const int socket = std::atoi(number);
  party self(socket, "the first process");
  self.worker.on_error([](const std::string&) {});  // some tests just go away
  struct receiver {
    party& self;
    uint64_t wrong = 0;
    bool stopped = false, stalled = false;
  } state{self};
  self.worker.on_am(
      notice,
      [](void* context, std::span<const std::byte> header, auto) {
        auto& to = *static_cast<receiver*>(context);
        const auto [sequence, slot, bytes, padding] = value_of<notice_header>(header);
        const std::byte* packet = to.self.memory.data + slot * party::slot_bytes;
        for (uint64_t i = 0; i < bytes / 8; ++i) {
          uint64_t word;
          std::memcpy(&word, packet + i * 8, 8);
          to.wrong += word != word_of(sequence, i);
        }
        to.self.endpoint->send_am(credit, bytes_of(slot), {}, nullptr, nullptr);
      },
      &state);
  self.worker.on_am(
      credit, [](void*, auto, auto) {}, nullptr);
  self.worker.on_am(
      stop, [](void* context, auto, auto) { static_cast<receiver*>(context)->stopped = true; }, &state);
  self.worker.on_am(
      start_stall, [](void* context, auto, auto) { static_cast<receiver*>(context)->stalled = true; }, &state);
  while (!state.stopped && !self.endpoint->failed()) {
    if (state.stalled) pause();
    if (!self.worker.progress()) sched_yield();
  }
  if (!state.stopped) return;
  self.endpoint->send_am(report, bytes_of(state.wrong), {}, nullptr, nullptr);
  self.worker.expect_disconnects();
  char byte;
  self.until([&] { return recv(socket, &byte, 1, MSG_DONTWAIT) == 1; });
  CHECK(self.worker.close_endpoints(std::chrono::seconds(100)));
}
