// Active messages whose handlers check every byte of their arguments and count by message: all sizes up to the largest,
// odd ones, arrays, structs. For active_message_test (one process) and am_job (jobs, both backends).
#pragma once
#include <string>
#include <vector>

#include <gravel/gravel.cuh>

namespace gravel::detail::mixes {

/// Byte b of argument `k` of message `i` is i + 17 k + 7 b. So a test sees whether the arguments that arrive belong
/// together; the first byte of argument 0 is i (modulo 256).
GRAVEL_BOTH unsigned char byte_of(uint32_t i, uint32_t k, uint32_t b) {
  return static_cast<unsigned char>(i + 17 * k + 7 * b);
}

template <uint32_t N>
struct bytes {
  unsigned char byte[N];
};
struct padded {  // 3 bytes of padding, which need not arrive
  uint32_t word;
  unsigned char byte;
};
struct without_default {
  GRAVEL_BOTH explicit without_default(uint16_t v) : half(v) {}
  uint16_t half;
};
enum class color : uint16_t {};

template <class T>
GRAVEL_BOTH T value_of(uint32_t i, uint32_t k) {
  unsigned char raw[sizeof(T)];
  for (uint32_t b = 0; b < sizeof(T); ++b) raw[b] = byte_of(i, k, b);
  if constexpr (std::is_same_v<T, bool>) raw[0] &= 1;
  unpacked_value<T> result;
  __builtin_memcpy(static_cast<void*>(&result.value), raw, sizeof(T));
  return result.value;
}
template <class T>
GRAVEL_BOTH bool same_bytes(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, padded>) {
    return a.word == b.word && a.byte == b.byte;
  } else {
    const auto *x = reinterpret_cast<const unsigned char*>(&a), *y = reinterpret_cast<const unsigned char*>(&b);
    for (uint32_t at = 0; at < sizeof(T); ++at)
      if (x[at] != y[at]) return false;
    return true;
  }
}

/// At the beginning of each PE's heap, for each mix: messages that arrived, by number modulo 256, and those that were
/// wrong.
struct tally {
  uint32_t arrived[256], wrong;
};
template <int NUMBER, bool HOST, class... A>
struct carries {
  static constexpr int number = NUMBER;
  static constexpr bool on_host = HOST;
  static constexpr char name[] = {'m', 'i', 'x', ' ', 'A' + NUMBER / 26, 'A' + NUMBER % 26, 0};
  static constexpr uint32_t argument_bytes = (0 + ... + static_cast<uint32_t>(sizeof(A)));
  GRAVEL_HANDLER void operator()(const gravel_t& g, A... arguments) const {
    uint32_t i = 0, k = 0, wrong = 0;
    if constexpr (sizeof...(A) != 0) {
      unsigned char first = 0;
      first_byte(&first, arguments...);
      i = first;
    }
    ((wrong += !same_bytes(arguments, value_of<A>(i, k++))), ...);
    tally* const mine = reinterpret_cast<tally*>(g.heap) + NUMBER;
    const int me = static_cast<int>(g.my_pe);
    gravel_add(g, &mine->arrived[i], 1, me);
    if (wrong) gravel_add(g, &mine->wrong, wrong, me);
  }
  GRAVEL_BOTH static void send(const gravel_t& g, uint32_t pe, uint32_t i) {
    send_with([&](const A&... arguments) { gravel_am<carries>(g, static_cast<int>(pe), arguments...); }, i,
              std::index_sequence_for<A...>());
  }
  template <class Sender>
  GRAVEL_DEVICE static void send_by(Sender& sender, uint32_t pe, uint32_t i) {
    send_with([&](const A&... arguments) { sender.template am<carries>(static_cast<int>(pe), arguments...); }, i,
              std::index_sequence_for<A...>());
  }

 private:
  template <class F, size_t... K>
  GRAVEL_BOTH static void send_with(F send, uint32_t i, std::index_sequence<K...>) {
    send(value_of<A>(i, K)...);
    (void)i;
  }
  template <class First, class... Rest>
  GRAVEL_BOTH static void first_byte(unsigned char* to, const First& first, const Rest&...) {
    *to = *reinterpret_cast<const unsigned char*>(&first);
  }
};

template <class... H>
struct handlers {
  static constexpr uint32_t count = sizeof...(H);
  using list = handler_list<H...>;
  /// f.template operator()<H>() for each.
#if GRAVEL_CUDA
#pragma nv_exec_check_disable  // f may be for one side only
#endif
  template <class F>
  GRAVEL_BOTH static void each(F f) {
    (f.template operator()<H>(), ...);
  }
};

using all =
    handlers<carries<0, false>, carries<1, false, uint8_t>, carries<2, false, uint8_t, uint64_t>,
             carries<3, false, char, uint16_t, uint32_t, uint64_t, bool>,
             carries<4, false, uint64_t, uint8_t, double, uint8_t, float>,
             carries<5, false, bytes<3>, uint64_t, padded>, carries<6, false, color, without_default, int16_t>,
             carries<7, false, bytes<7>, bytes<9>, bytes<5>, bytes<19>>, carries<8, false, bytes<40>>,
             carries<9, false, bytes<41>>, carries<10, false, bytes<48>>, carries<11, false, bytes<49>>,
             carries<12, false, bytes<55>, uint8_t>, carries<13, false, bytes<57>>,
             carries<14, false, uint64_t, bytes<64>, uint16_t>,
             carries<15, false, bytes<63>, uint64_t, bytes<64>, uint32_t, double>, carries<16, false, bytes<199>>,
             carries<17, false, uint8_t, bytes<255>>, carries<18, false, bytes<256>>,
             carries<19, false, bytes<32>, bytes<32>, bytes<32>, bytes<32>, bytes<32>, bytes<32>, bytes<32>, bytes<32>>,
             carries<20, true>, carries<21, true, uint8_t, uint32_t>, carries<22, true, bytes<50>, double>,
             carries<23, true, uint64_t, bytes<248>>>;

/// The error in the messages that PE `me` has received, when every one of `senders` has sent messages 0 to `each` - 1
/// of every mix, number i to PE (i + sender) % n. Empty: no error.
inline std::string compare(const tally* got, uint32_t me, uint32_t n, const std::vector<uint32_t>& senders,
                           uint32_t each) {
  std::string text;
  all::each([&]<class H>() {
    uint32_t expected[256] = {};
    for (uint32_t sender : senders)
      for (uint32_t i = 0; i < each; ++i) expected[H::argument_bytes ? i % 256 : 0] += (i + sender) % n == me;
    const tally& t = got[H::number];
    if (t.wrong) text += std::string(H::name) + ": " + std::to_string(t.wrong) + " arguments are wrong\n";
    for (uint32_t i = 0; i < 256; ++i)
      if (t.arrived[i] != expected[i])
        text += std::string(H::name) + ": message " + std::to_string(i) + " arrived " + std::to_string(t.arrived[i]) +
                " times, not " + std::to_string(expected[i]) + "\n";
  });
  return text;
}

}  // namespace gravel::detail::mixes
