#include "host/pe/service_watch.hpp"

#include <algorithm>

#include "lib/base/error.hpp"

namespace gravel {
namespace {

std::string describe_servers(open_service& s) {
  std::string text;
  const std::vector<service_server> servers = s.read_servers();
  const uint64_t places = s.view().shape.far_messages();
  for (size_t i = 0; i < servers.size(); ++i) {
    const service_server& now = servers[i];
    text += fmt::format(
        "  service '{}', server {} {}; chunks of kernels of this PE: {}, applied: {}; messages of other PEs, handlers and servers: {} in a "
        "ring of {}, applied: {}",
        s.name(), i, now.state == service_server::asleep ? "sleeps" : "runs", now.near.tickets, now.near_done, now.far_tickets, places,
        now.far_done);
    text += "\n";
  }
  return text;
}

}  // namespace

void service_watch::add(open_service& s) {
  const std::lock_guard lock(lock_);
  open_.push_back(&s);
}

void service_watch::remove(open_service& s) {
  const std::lock_guard lock(lock_);
  std::erase(open_, &s);
  watches_.erase(&s);
}

std::string service_watch::look(uint64_t limit_s) {
  const std::lock_guard lock(lock_);
  for (open_service* s : open_) {
    watched& watch = watches_[s];
    if (s->is_to_end()) {
      if (watch.end.look(true, 0))
        return fmt::format(
            "service '{}': it is closed, but its kernel at PE {} has not ended for {} s (GRAVEL_WATCHDOG_S); a server may not return from "
            "its messages",
            s->name(), pe_, limit_s);
      continue;
    }
    const std::vector<service_server> servers = s->read_servers();
    watch.servers.resize(servers.size());
    for (size_t i = 0; i < servers.size(); ++i)
      if (watch.servers[i].look(servers[i].applied() < servers[i].tickets(), servers[i].applied()))
        return fmt::format(
            "service '{}': server {} of PE {} has finished nothing for {} s (GRAVEL_WATCHDOG_S), and messages wait for it; it may not "
            "return from its messages, or its kernel may find no room on the device",
            s->name(), i, pe_, limit_s);
  }
  return {};
}

std::string service_watch::describe() {
  const std::lock_guard lock(lock_);
  std::string text;
  for (open_service* s : open_) text += describe_servers(*s);
  return text;
}

}  // namespace gravel
