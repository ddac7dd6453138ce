// The rules for programs of worklists of items (docs/worklists.md, "Items of any type"), and the checks of a type
// against them. Each broken rule is one readable line of the compiler. Source: Groute, table 4-1, recast.
#pragma once
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "lib/base/platform.hpp"

/// What happens to an item when it is pushed (`on_send`), or when it has come from another PE (`on_receive`).
/// @scope any
/// @completion on return
/// @errors none
/// @source Groute, table 4-1
enum class gravel_item_flags : uint32_t {
  drop = 0,       ///< nothing
  take = 1,       ///< this PE keeps the item in its list
  pass = 2,       ///< the item goes to its owner, as this PE sees it; if that is this PE, it is kept
  duplicate = 3,  ///< take and pass
};

template <class Program>
class gravel_item_list;

namespace gravel::detail {

GRAVEL_BOTH constexpr bool has_flag(gravel_item_flags flags, gravel_item_flags one) {
  return (static_cast<uint32_t>(flags) & static_cast<uint32_t>(one)) != 0;
}

constexpr uint64_t least_item_bytes = 4, most_item_bytes = 64;

template <class T>
concept travels = std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && sizeof(T) >= least_item_bytes
                  && sizeof(T) <= most_item_bytes;

/// The item of a program; of a wrong one a type with which the compiler can go on.
template <class P>
struct item_of {
  using type = uint32_t;
};
template <class P>
requires travels<typename P::item>
struct item_of<P> {
  using type = typename P::item;
};

template <class P>
concept packs = requires(const P& p, const typename item_of<P>::type& x) {
  { p.pack(x) } -> travels;
};
/// What travels for an item.
template <class P>
struct packed_of {
  using type = typename item_of<P>::type;
};
template <packs P>
struct packed_of<P> {
  using type = std::decay_t<decltype(std::declval<const P&>().pack(std::declval<const typename item_of<P>::type&>()))>;
};

template <class P, class Item = typename item_of<P>::type>
concept has_owner = requires(const P& p, const Item& x) {
  { p.owner(x) } -> std::convertible_to<int>;
};
template <class P, class Item = typename item_of<P>::type>
concept has_process = requires(const P& p, const gravel_item_list<P>& list, const Item& x) {
  p.process(list, x);
};
template <class P, class Item = typename item_of<P>::type>
concept has_parts = requires(const P& p, const gravel_item_list<P>& list, const Item& x, uint32_t k) {
  { p.process(list, x) } -> std::convertible_to<uint32_t>;
  p.part(list, x, k);
};
template <class P, class Item = typename item_of<P>::type>
concept has_priority = requires(const P& p, const Item& x) {
  { p.priority(x) } -> std::convertible_to<uint32_t>;
};
template <class P>
concept has_limit = requires(const P& p, uint32_t rank) {
  { p.limit_after(rank) } -> std::convertible_to<uint32_t>;
};
template <class P, class Item = typename item_of<P>::type>
concept has_on_send = requires(const P& p, const Item& x) {
  { p.on_send(x) } -> std::same_as<gravel_item_flags>;
};
template <class P, class Packed = typename packed_of<P>::type>
concept has_on_receive = requires(const P& p, const Packed& x) {
  { p.on_receive(x) } -> std::same_as<gravel_item_flags>;
};
template <class P, class Item = typename item_of<P>::type, class Packed = typename packed_of<P>::type>
concept has_unpack = requires(const P& p, const Packed& x) {
  { p.unpack(x) } -> std::same_as<Item>;
};

// Members that are there, whether they can be called or not.
template <class P>
concept names_part = requires {
  &P::part;
};
template <class P>
concept names_priority = requires {
  &P::priority;
};
template <class P>
concept names_limit = requires {
  &P::limit_after;
};
template <class P>
concept names_on_send = requires {
  &P::on_send;
};
template <class P>
concept names_on_receive = requires {
  &P::on_receive;
};
template <class P>
concept names_pack = requires {
  &P::pack;
};
template <class P>
concept names_unpack = requires {
  &P::unpack;
};

/// Refuses a program with the first rule that it breaks. Returns whether it keeps all of them.
template <class P>
constexpr bool check_item_program() {
  constexpr bool has_name = requires {
    { P::name } -> std::convertible_to<const char*>;
  };
  constexpr bool has_item = requires { typename P::item; };
  if constexpr (!has_name) {
    static_assert(has_name, "a program of gravel_item_worklist has a name: static constexpr const char* name = ...");
  } else if constexpr (!has_item) {
    static_assert(has_item, "a program of gravel_item_worklist says what its items are: using item = ...");
  } else if constexpr (!travels<typename P::item>) {
    static_assert(travels<typename P::item>,
                  "an item of gravel_item_worklist is trivially copyable, has a default constructor, and has 4 to 64 "
                  "bytes: keep larger data in memory of the program, and their numbers in items");
  } else if constexpr (!has_owner<P>) {
    static_assert(has_owner<P>,
                  "a program of gravel_item_worklist says which PE owns an item: "
                  "GRAVEL_DEVICE int owner(const item& x) const");
  } else if constexpr (!has_process<P>) {
    static_assert(has_process<P>,
                  "a program of gravel_item_worklist works on an item: "
                  "GRAVEL_DEVICE void process(const gravel_item_list<program>& list, const item& x) const");
  } else if constexpr (names_part<P> && !has_parts<P>) {
    static_assert(has_parts<P>,
                  "if a program of gravel_item_worklist has parts, process() returns their number, a uint32_t, and "
                  "there is GRAVEL_DEVICE void part(const gravel_item_list<program>& list, const item& x, uint32_t k) "
                  "const");
  } else if constexpr (names_priority<P> && !has_priority<P>) {
    static_assert(has_priority<P>,
                  "priority of a program of gravel_item_worklist is GRAVEL_DEVICE uint32_t priority(const item& x) "
                  "const: the least comes first");
  } else if constexpr (names_limit<P> && !(has_limit<P> && has_priority<P>)) {
    static_assert(has_limit<P> && has_priority<P>,
                  "limit_after of a program of gravel_item_worklist is GRAVEL_DEVICE uint32_t limit_after(uint32_t "
                  "rank) const, beside priority(): items of the ranks below it are worked on together");
  } else if constexpr ((names_pack<P> || names_unpack<P>)&&!(packs<P> && has_unpack<P>)) {
    static_assert(packs<P> && has_unpack<P>,
                  "pack and unpack of a program of gravel_item_worklist are GRAVEL_DEVICE packed pack(const item& x) "
                  "const and GRAVEL_DEVICE item unpack(const packed& x) const, where packed is trivially copyable and "
                  "has 4 to 64 bytes");
  } else if constexpr (names_on_send<P> && !has_on_send<P>) {
    static_assert(has_on_send<P>,
                  "on_send of a program of gravel_item_worklist is GRAVEL_DEVICE gravel_item_flags on_send(const item& "
                  "x) const");
  } else if constexpr (names_on_receive<P> && !has_on_receive<P>) {
    static_assert(has_on_receive<P>,
                  "on_receive of a program of gravel_item_worklist takes what travels: GRAVEL_DEVICE "
                  "gravel_item_flags on_receive(const packed& x) const; without pack, packed is the item");
  } else {
    return true;
  }
  return false;
}
/// Whether a program keeps the rules. The first use refuses a wrong one.
template <class P>
constexpr bool is_item_program = check_item_program<P>();

template <class P>
constexpr const char* name_of_items() {
  if constexpr (requires {
                  { P::name } -> std::convertible_to<const char*>;
                })
    return P::name;
  else return "items";
}

}  // namespace gravel::detail
