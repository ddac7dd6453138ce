// The types of a task graph, and what is known of them at compile time. A task is an object: its members are its
// arguments, and its call operator is its work. A continuation is a task that waits in a frame until its inputs have
// come (Cilk's sync; Channels, ISCA 2014, section 5).
//
//   struct T {                                         struct C {
//     static constexpr const char* name;                 static constexpr const char* name;
//     static constexpr uint32_t spawns;   at most        static constexpr uint32_t inputs;    0 to 8
//     using children = gravel_types<...>; of these       using value = V;     type of each input; void: no value
//     using continuations = gravel_types<...>;           (spawns, children, continuations as in a task)
//     uint32_t level() const;                            template <class Here>
//     static constexpr uint32_t lanes;    1 or 32        __device__ void operator()(Here&, const V (&x)[inputs]) const;
//     static constexpr bool comes_last;                  };
//     static bool may_start(const gravel_channel_load&, const Constants&);    __device__
//     template <class Here>
//     __device__ void operator()(Here&) const;
//   };
//
// Defaults: children is the type itself, or none for a type without spawns; continuations none; level() the number of
// depths that are left; lanes 1; comes_last false; may_start: there are `width` tasks, or nothing else may start.
#pragma once
#include <cstdint>
#include <type_traits>

#include "lib/base/platform.hpp"

/// A list of task types.
template <class... T>
struct gravel_types {
  static constexpr uint32_t count = sizeof...(T);
  template <class U>
  static constexpr bool has = (std::is_same_v<T, U> || ...);
  /// The place of U in the list.
  template <class U>
  static constexpr uint32_t index = [] {
    constexpr bool same[] = {std::is_same_v<T, U>..., true};
    uint32_t i = 0;
    while (!same[i]) ++i;
    return i;
  }();
  /// True if no type stands twice in the list.
  static constexpr bool distinct = [] {
    uint32_t i = 0;
    return ((index<T> == i++) && ... && true);
  }();
};

/// What a predicate, may_start() of a task type, knows of the channel whose tasks may start or not.
/// @scope any
/// @completion on return
/// @errors none
/// @source Channels (ISCA 2014), section 3.1
struct gravel_channel_load {
  uint32_t waiting;  ///< tasks of the type and depth that are ready
  uint32_t depth;    ///< of these tasks
  bool last_choice;  ///< the worker has found no batch that fills the width of its channel
};

/// Where a result goes: an input of a frame, or a word that the host reads. It is plain data, which tasks pass to their
/// children.
/// @scope any
/// @completion on return
/// @errors none
/// @source Channels (ISCA 2014), section 5
template <class V>
struct gravel_return {
  // Bit 31: the frame lies in the worker's shared memory. Bits 30 to 28: its type (7: a word of the host). Bits 27 to
  // 25: the number of the input. Bits 24 to 0: the row.
  uint32_t word;

  static constexpr uint32_t local_bit = 1u << 31, of_host = 7, row_bits = 25;
  /// @internal
  GRAVEL_BOTH static gravel_return to(bool local, uint32_t type, uint32_t input, uint32_t row) {
    return {(local ? local_bit : 0) | type << 28 | input << row_bits | row};
  }
  /// @internal
  GRAVEL_BOTH bool is_local() const { return word & local_bit; }
  /// @internal
  GRAVEL_BOTH uint32_t type() const { return word >> 28 & 7; }
  /// @internal
  GRAVEL_BOTH uint32_t input() const { return word >> row_bits & 7; }
  /// @internal
  GRAVEL_BOTH uint32_t row() const { return word & ((1u << row_bits) - 1); }
};

namespace gravel::detail {

/// What a task can do wrong. The first fault of a run is reported to the host.
enum class task_fault : uint32_t {
  none,
  too_many_spawns,
  too_deep,
  level_does_not_fall,
  continuation_twice,
  stalled,
  elsewhere
};

namespace inner {
template <class T>
constexpr bool is_continuation = requires {
  T::inputs;
};
template <class T>
constexpr bool has_level = requires(const T& t) {
  t.level();
};
template <class T>
constexpr bool has_predicate = requires {
  &T::may_start;
};
template <class T>
constexpr uint32_t spawns_of = [] {
  if constexpr (requires { T::spawns; }) return uint32_t{T::spawns};
  else return 0u;
}();
template <class T>
constexpr uint32_t lanes_of = [] {
  if constexpr (requires { T::lanes; }) return uint32_t{T::lanes};
  else return 1u;
}();
template <class T>
constexpr bool comes_last = [] {
  if constexpr (requires { T::comes_last; }) return bool{T::comes_last};
  else return false;
}();
template <class T>
struct children_of {
  using type = std::conditional_t<spawns_of<T> != 0, gravel_types<T>, gravel_types<>>;
};
template <class T>
requires requires { typename T::children; }
struct children_of<T> {
  using type = typename T::children;
};
template <class T>
struct continuations_of {
  using type = gravel_types<>;
};
template <class T>
requires requires { typename T::continuations; }
struct continuations_of<T> {
  using type = typename T::continuations;
};
template <class C>
struct value_of {
  using type = void;
};
template <class C>
requires requires { typename C::value; }
struct value_of<C> {
  using type = typename C::value;
};
}  // namespace inner

/// The facts about one type.
template <class T>
struct task_facts {
  static constexpr bool is_continuation = inner::is_continuation<T>;
  static constexpr uint32_t spawns = inner::spawns_of<T>;  ///< largest number of children of one task
  static constexpr uint32_t lanes = inner::lanes_of<T>;    ///< lanes that run one task
  static constexpr uint32_t batch = 32 / lanes;            ///< number of tasks that a warp runs at once
  using children = typename inner::children_of<T>::type;
  using continuations = typename inner::continuations_of<T>::type;
  using value = typename inner::value_of<T>::type;
  static constexpr uint32_t inputs = [] {
    if constexpr (is_continuation) return uint32_t{T::inputs};
    else return 0u;
  }();
  /// Tasks of this type run after all tasks of other types, those of the least depth first. (Other tasks: the deepest
  /// first.)
  static constexpr bool comes_last = inner::comes_last<T>;
  /// May tasks of this type lie in a worker's shared memory?
  static constexpr bool may_be_local =
      lanes == 1 && !inner::has_predicate<T> && !(is_continuation && (spawns != 0 || continuations::count != 0));

  static_assert(std::is_trivially_copyable_v<T>, "a task is copied as it is");
  static_assert(lanes == 1 || lanes == 32, "a task is run by 1 lane or by 32");
  static_assert(!comes_last || (lanes == 32 && spawns == 0 && continuations::count == 0 && !is_continuation),
                "what comes last is a task of 32 lanes that spawns nothing and waits for nothing");
  static_assert(!inner::has_predicate<T> || !is_continuation, "a continuation starts when its inputs have come");
  static_assert(inputs <= 8, "a continuation has at most 8 inputs");
  static_assert(!is_continuation || (inputs == 0) == std::is_void_v<value>,
                "a continuation has inputs of a type, or none and no type");
};

}  // namespace gravel::detail
