#include "host/node/node_socket.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "host/node/hello.hpp"
#include "lib/base/error.hpp"
#include "test/support/catch.hpp"
#include "test/support/error_of.hpp"

using namespace gravel::detail;
namespace fs = std::filesystem;

namespace {

struct pair_of_sockets {
  int ends[2] = {-1, -1};
  pair_of_sockets() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0); }
};

std::vector<std::byte> pattern(size_t n) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
  return bytes;
}

size_t open_descriptors() {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd")) ++n;
  return n;
}

abort_message large(size_t n) {
  const auto bytes = pattern(n);
  return {{reinterpret_cast<const char*>(bytes.data()), n}};
}

/// A header of a message of that many bytes.
std::vector<std::byte> header_of(wire_kind kind, uint64_t bytes) {
  std::vector<std::byte> raw = to_wire(ready_word{});
  std::memcpy(raw.data() + offsetof(wire_header, kind), &kind, sizeof(kind));
  std::memcpy(raw.data() + offsetof(wire_header, bytes), &bytes, sizeof(bytes));
  return raw;
}

}  // namespace

TEST_CASE("frames arrive whole and in order, of any size") {
  pair_of_sockets pair;
  node_socket a(pair.ends[0]), b(pair.ends[1]);
  const size_t sizes[] = {0, 1, 15, 4096, 3'000'000, 2};
  std::thread sender([&] {
    for (size_t n : sizes) a.send(large(n));
    a.send(abort_message{"a text"});
  });
  for (size_t n : sizes) {
    auto f = b.receive();
    REQUIRE(f);
    CHECK(f->kind == wire_kind::abort);
    CHECK(f->as<abort_message>("a").why == large(n).why);
    CHECK(!f->descriptor);
  }
  auto last = b.receive();
  sender.join();
  REQUIRE(last);
  CHECK(last->kind == wire_kind::abort);
  CHECK(last->as<abort_message>("a").why == "a text");
}

TEST_CASE("a wait for an end that neither writes nor reads ends with an error after the limit") {
  pair_of_sockets pair;
  node_socket a(pair.ends[0]), b(pair.ends[1]);
  a.limit_waits(1);
  CHECK_THROWS_WITH(a.receive(), contains_text("no answer") && contains_text("GRAVEL_CONNECT_TIMEOUT_S"));
  a.limit_sends(1);
  // More than the socket takes by itself.
  CHECK_THROWS_WITH(a.send(large(16 << 20)), contains_text("nobody read") && contains_text("GRAVEL_CONNECT_TIMEOUT_S"));
}

TEST_CASE("a descriptor travels with its frame") {
  pair_of_sockets pair;
  node_socket a(pair.ends[0]), b(pair.ends[1]);
  const int file = memfd_create("passed", MFD_CLOEXEC);
  REQUIRE(write(file, "hello", 5) == 5);
  a.send(hello{}, file);
  close(file);
  a.send(goodbye_message{});
  auto f = b.receive();
  REQUIRE(f);
  REQUIRE(f->descriptor);
  char text[6] = {};
  CHECK(pread(f->descriptor.get(), text, 5, 0) == 5);
  CHECK(std::string(text) == "hello");
  CHECK((fcntl(f->descriptor.get(), F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(!b.receive()->descriptor);
}

TEST_CASE("a closed peer is an end when reading and an error when writing") {
  pair_of_sockets pair;
  node_socket b(pair.ends[1]);
  { node_socket a(pair.ends[0]); }
  CHECK_FALSE(b.receive());
  CHECK_THROWS_WITH(b.send(goodbye_message{}), contains_text("socket"));
}

TEST_CASE("a frame cut off by the peer's death is an end, and its descriptor is not lost") {
  const size_t before = open_descriptors();
  for (size_t sent : {size_t{1}, sizeof(wire_header) - 1, sizeof(wire_header), sizeof(wire_header) + 10}) {
    pair_of_sockets pair;
    node_socket b(pair.ends[1]);
    const auto raw = to_wire(large(48));
    REQUIRE(write(pair.ends[0], raw.data(), sent) == static_cast<ssize_t>(sent));
    close(pair.ends[0]);
    CHECK_FALSE(b.receive());
  }
  for (const size_t n : {1, 2}) {
    // A hello with a descriptor, or one too many, whose bytes never come.
    pair_of_sockets pair;
    node_socket b(pair.ends[1]);
    std::vector<std::byte> header = header_of(wire_kind::hello, 48);
    iovec part{header.data(), header.size()};
    const int descriptors[] = {pair.ends[1], pair.ends[1]};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(descriptors))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(n * sizeof(int));
    cmsghdr* c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    std::memcpy(CMSG_DATA(c), descriptors, n * sizeof(int));
    REQUIRE(sendmsg(pair.ends[0], &message, 0) == static_cast<ssize_t>(header.size()));
    close(pair.ends[0]);
    CHECK_FALSE(b.receive());
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("an unknown word between a PE and its aggregator is refused") {
  const auto refused = [](const std::vector<std::byte>& raw, const std::string& why) {
    pair_of_sockets pair;
    node_socket b(pair.ends[1]);
    REQUIRE(write(pair.ends[0], raw.data(), raw.size()) == static_cast<ssize_t>(raw.size()));
    CHECK_THROWS_WITH(b.receive(), contains_text(why));
    close(pair.ends[0]);
  };
  for (wire_kind kind : {wire_kind(0), wire_kind::program, wire_kind::count, wire_kind(0xffff)})
    refused(header_of(kind, 0), "malformed");
  for (const wire_kind kind : {wire_kind::hello, wire_kind::extent}) refused(header_of(kind, 0), "without memory");
  for (uint64_t bytes : {(1ull << 30) + 1, ~0ull}) refused(header_of(wire_kind::wiring, bytes), "malformed");
  refused(std::vector<std::byte>(24), "not a message of Gravel");
  auto other_version = to_wire(ready_word{});
  other_version[offsetof(wire_header, version)] ^= std::byte{0x40};
  refused(other_version,
          fmt::format("version {} of Gravel's messages, this process {}", wire_version ^ 0x40, wire_version));
}

TEST_CASE("memory that comes with a word other than hello is refused, and not lost") {
  const size_t before = open_descriptors();
  {
    pair_of_sockets pair;
    node_socket a(pair.ends[0]), b(pair.ends[1]);
    a.send(ready_word{}, pair.ends[0]);
    CHECK_THROWS_WITH(b.receive(), contains_text("'ready', with memory"));
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("a listener has a name of its own, in no file system, and the name goes with the socket") {
  std::string name;
  {
    const node_listener listener, another;
    name = listener.name();
    CHECK(name.size() == std::string("gravel-node-").size() + 32);
    CHECK(name != another.name());
    CHECK_FALSE(fs::exists(name));
    node_socket client = node_socket::connect(name);
    node_socket accepted(accept(listener.descriptor(), nullptr, nullptr));
    CHECK(accepted.check_peer() == getpid());
    client.send(abort_message{"here"});
    CHECK(accepted.receive()->as<abort_message>("client").why == "here");
  }
  CHECK_THROWS_WITH(node_socket::connect(name), contains_text("@" + name) && contains_text("refused"));
  CHECK_THROWS_WITH(node_socket::connect(std::string(200, 'x')), contains_text("longer than 107"));
}

TEST_CASE("a process of another user is refused") {
  if (geteuid() != 0) {
    WARN("not root: cannot become another user, so this is not tested");
    return;
  }
  const node_listener listener;
  const pid_t child = fork();
  if (child == 0) {
    std::optional<node_socket> socket;
    const bool connected =
        setuid(65534) == 0 && error_of([&] { socket.emplace(node_socket::connect(listener.name())); }) == "no error";
    char byte;
    if (connected) [[maybe_unused]]
      const auto n = read(socket->descriptor(), &byte, 1);
    _exit(connected ? 0 : 1);
  }
  {
    node_socket accepted(accept(listener.descriptor(), nullptr, nullptr));
    CHECK_THROWS_WITH(accepted.check_peer(), contains_text("65534"));
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("shut_down ends a receive of another thread") {
  pair_of_sockets pair;
  node_socket a(pair.ends[0]), b(pair.ends[1]);
  std::thread reader([&] { CHECK_FALSE(b.receive()); });
  b.shut_down();
  reader.join();
}

TEST_CASE("moving a socket moves its descriptor") {
  pair_of_sockets pair;
  node_socket a(pair.ends[0]);
  node_socket b(std::move(a));
  CHECK(a.descriptor() == -1);
  CHECK(b.descriptor() == pair.ends[0]);
  close(pair.ends[1]);
}

TEST_CASE("an announced record takes no memory before it arrives") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  pair_of_sockets pair;
  const auto header = header_of(wire_kind::wiring, 1ull << 30);
  REQUIRE(write(pair.ends[0], header.data(), header.size()) == static_cast<ssize_t>(header.size()));
  close(pair.ends[0]);
  node_socket socket(pair.ends[1]);
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlimit small{pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) + (64u << 20), before.rlim_max};
  setrlimit(RLIMIT_AS, &small);
  std::optional<frame> got;
  CHECK_NOTHROW(got = socket.receive());
  setrlimit(RLIMIT_AS, &before);
  CHECK_FALSE(got);
#endif
}
