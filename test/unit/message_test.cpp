#include "lib/base/message.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "device/value.cuh"
#include "test/support/catch.hpp"

using namespace gravel::detail;

namespace {

constexpr uint64_t heap = 4096, cells = 8;
constexpr uint32_t pes = 4;

struct made_message {
  unit data[max_small_units] = {};
  made_message(op o, value_type t, uint64_t offset, uint64_t value = 0, uint64_t back = 0) {
    data[0] = {{make_word0(o, static_cast<uint8_t>(t), offset), value}};
    data[1] = {{back, 0}};
  }
  message_fault check(uint32_t units = 1) const { return check_message(data, units, heap, pes, cells); }
};

constexpr value_type all_types[] = {value_type::u8,  value_type::u16, value_type::u32, value_type::u64,
                                    value_type::i32, value_type::i64, value_type::f32, value_type::f64};
constexpr op fetching_ops[] = {op::fetch_add, op::fetch_and, op::fetch_or, op::fetch_xor,   op::fetch_min,
                               op::fetch_max, op::swap,      op::fetch,    op::compare_swap};
bool is_float(value_type t) { return t == value_type::f32 || t == value_type::f64; }

}  // namespace

TEST_CASE("the first word keeps operation, type and offset apart") {
  for (op o : {op::put, op::add, op::max, op::get, op::compare_swap, op::cell_reply})
    for (value_type t : all_types)
      for (uint8_t origin : {uint8_t{0}, host_origin, odd_parity, static_cast<uint8_t>(host_origin | odd_parity)})
        for (uint64_t offset : {0ull, 8ull, (1ull << 32) + 1, 1ull * max_offset}) {
          const uint64_t w = make_word0(o, static_cast<uint8_t>(t) | origin, offset);
          CHECK(op_of(w) == o);
          CHECK(type_of(w) == t);
          CHECK((type_byte(w) & (host_origin | odd_parity)) == origin);
          CHECK(offset_of(w) == offset);
        }
}

TEST_CASE("an active message's first word has 32 bits of handler id") {
  for (uint32_t bytes : {0u, 1u, 48u, 255u, 256u, 65535u}) {
    const uint64_t w = make_am_word0(0xfedcba98u, bytes);
    CHECK(op_of(w) == op::am);
    CHECK(argument_bytes_of(w) == bytes);
    CHECK(handler_of(w) == 0xfedcba98u);
  }
}

TEST_CASE("a return address holds the largest PE and the largest offset") {
  for (uint32_t pe : {0u, 1u, max_pes})
    for (uint64_t where : {0ull, 4096ull, 1ull * max_offset}) {
      CHECK(return_pe(make_return(pe, where)) == pe);
      CHECK(return_where(make_return(pe, where)) == where);
    }
}

TEST_CASE("a sink is a PE and a kind") {
  for (uint32_t pe : {0u, 1u, 77u, max_pes})
    for (sink_kind kind : {sink_kind::device, sink_kind::host}) {
      CHECK(pe_of_sink(sink_of(pe, kind)) == pe);
      CHECK((sink_of(pe, kind) & 1) == static_cast<uint32_t>(kind));
    }
}

TEST_CASE("a value travels in a word, in its low bytes") {
  CHECK(to_word(uint8_t{200}) == 200);
  CHECK(to_word(int32_t{-1}) == 0xffffffffu);
  CHECK(from_word<int32_t>(to_word(std::numeric_limits<int32_t>::min())) == std::numeric_limits<int32_t>::min());
  CHECK(from_word<int64_t>(to_word(int64_t{-5})) == -5);
  CHECK(from_word<float>(to_word(1.5f)) == 1.5f);
  CHECK(from_word<double>(to_word(-0.1)) == -0.1);
  CHECK(value_type_of<char>() == value_type::u8);
  CHECK(value_type_of<int16_t>() == value_type::u16);
  CHECK(value_type_of<long>() == value_type::i64);
  CHECK(value_type_of<unsigned long long>() == value_type::u64);
  CHECK(value_type_of<bool>() == value_type::u8);
  CHECK(value_type_of<int*>() == value_type::u64);
  enum small : int16_t { low = -3 };
  enum class large : uint32_t { high = 0xfffffff0u };
  CHECK(value_type_of<small>() == value_type::u16);
  CHECK(value_type_of<large>() == value_type::u32);
  CHECK(as_number(low) == -3);
  CHECK(as_number(large::high) == 0xfffffff0u);
  CHECK(from_word<large>(to_word(large::high)) == large::high);
  int object;
  CHECK(from_word<int*>(to_word(as_number(&object))) == &object);
  CHECK(as_number(true) == 1);
}

TEST_CASE("units of each operation") {
  for (op o : {op::put, op::add, op::bit_and, op::bit_or, op::bit_xor, op::min, op::max, op::get, op::put_reply,
               op::cell_reply})
    CHECK(units_of(make_word0(o, 3, 0), 0) == 1);
  for (op o : fetching_ops) CHECK(units_of(make_word0(o, 3, 0), 0) == 2);
  for (auto [bytes, units] : {std::pair{0, 1},
                              {1, 1},
                              {8, 1},
                              {9, 2},
                              {24, 2},
                              {25, 3},
                              {40, 3},
                              {41, 4},
                              {56, 4},
                              {57, 5},
                              {248, 16},
                              {249, 17},
                              {256, 17}})
    CHECK(units_of(make_am_word0(0, static_cast<uint32_t>(bytes)), 0) == static_cast<uint32_t>(units));
  CHECK(units_of(make_am_word0(0, 257), 0) == 0);
  CHECK(max_am_units == 17);
  for (auto [bytes, units] : {std::pair{0u, 5u}, {1u, 5u}, {64u, 5u}, {65u, 6u}, {1u << 20, 65537u}})
    CHECK(units_of(make_word0(op::put_bulk, 0, 0), bytes) == units);
  CHECK(units_of(make_word0(op::put_bulk, 0, 0), (1u << 20) + 1) == 0);
  CHECK(units_of(make_word0(op::put_bulk, 0, 0), ~0ull) == 0);
  CHECK(units_of(make_word0(op::none, 0, 0), 0) == 0);
  for (int o = static_cast<int>(op::count); o < 256; ++o) CHECK(units_of(static_cast<uint64_t>(o), 0) == 0);
}

TEST_CASE("which types an operation takes") {
  for (value_type t : all_types) {
    const bool narrow = bytes_of(t) < 4;
    INFO("type " << static_cast<int>(t));
    for (op o : {op::put, op::get, op::put_reply}) CHECK(made_message(o, t, 8).check() == message_fault::fine);
    CHECK(made_message(op::fetch, t, 8).check(2) == message_fault::fine);
    const message_fault numbers = narrow ? message_fault::bad_type : message_fault::fine;
    for (op o : {op::add, op::min, op::max}) CHECK(made_message(o, t, 8).check() == numbers);
    for (op o : {op::fetch_add, op::fetch_min, op::fetch_max, op::swap})
      CHECK(made_message(o, t, 8).check(2) == numbers);
    const message_fault bits = narrow || is_float(t) ? message_fault::bad_type : message_fault::fine;
    for (op o : {op::bit_and, op::bit_or, op::bit_xor}) CHECK(made_message(o, t, 8).check() == bits);
    for (op o : {op::fetch_and, op::fetch_or, op::fetch_xor, op::compare_swap})
      CHECK(made_message(o, t, 8).check(2) == bits);
  }
  for (op o : {op::put, op::add, op::get, op::min})
    CHECK(made_message(o, value_type::count, 8).check() == message_fault::bad_type);
  CHECK(made_message(op::fetch_add, static_cast<value_type>(0x7f), 8).check(2) == message_fault::bad_type);
}

TEST_CASE("a fetching operation is an update with an answer") {
  constexpr op fetches[] = {op::fetch_add, op::fetch_and, op::fetch_or, op::fetch_xor, op::fetch_min, op::fetch_max};
  constexpr op updates[] = {op::add, op::bit_and, op::bit_or, op::bit_xor, op::min, op::max};
  for (int i = 0; i < 6; ++i) CHECK(update_of(fetches[i]) == updates[i]);
  for (int o = 0; o < static_cast<int>(op::count); ++o)
    CHECK(is_fetching(static_cast<op>(o)) ==
          (std::count(std::begin(fetching_ops), std::end(fetching_ops), static_cast<op>(o)) == 1));
}

TEST_CASE("numbers of 16 bits are only added") {
  for (value_type t : {value_type::f16, value_type::bf16}) {
    for (op o : {op::add, op::fetch_add}) {
      const uint32_t units = o == op::add ? 1 : 2;
      CHECK(made_message(o, t, heap - 2).check(units) == message_fault::fine);
      CHECK(made_message(o, t, heap - 1).check(units) == message_fault::outside_heap);
      CHECK(made_message(o, t, 3).check(units) == message_fault::misaligned);
    }
    for (op o : {op::put, op::max, op::bit_or, op::get})
      CHECK(made_message(o, t, 8).check() == message_fault::bad_type);
    CHECK(made_message(op::swap, t, 8).check(2) == message_fault::bad_type);
  }
  CHECK(value_type_of<gravel_half>() == value_type::f16);
  CHECK(value_type_of<number<gravel_half>>() == value_type::u16);
}

TEST_CASE("invalid operations") {
  CHECK(made_message(op::none, value_type::u64, 0).check() == message_fault::bad_op);
  CHECK(made_message(op::count, value_type::u64, 0).check() == message_fault::bad_op);
  CHECK(made_message(static_cast<op>(255), value_type::u64, 0).check() == message_fault::bad_op);
}

TEST_CASE("the size must be that of the operation") {
  for (uint32_t units : {0u, 2u, 3u, 4u})
    CHECK(made_message(op::put, value_type::u64, 0).check(units) == message_fault::bad_size);
  for (uint32_t units : {0u, 1u, 3u, 4u})
    CHECK(made_message(op::fetch_add, value_type::u64, 0).check(units) == message_fault::bad_size);
  made_message am(op::am, value_type::u8, offset_of(make_am_word0(0, 24)));
  CHECK(am.check(2) == message_fault::fine);
  CHECK(am.check(1) == message_fault::bad_size);
  CHECK(am.check(3) == message_fault::bad_size);
  CHECK(made_message(op::am, value_type::u8, offset_of(make_am_word0(0, 257))).check(17) == message_fault::bad_size);
  CHECK(made_message(op::put_bulk, value_type::u8, 0, 17).check(5) == message_fault::fine);
  CHECK(made_message(op::put_bulk, value_type::u8, 0, 17).check(3) == message_fault::bad_size);
  CHECK(made_message(op::put_bulk, value_type::u8, 0, 80).check(6) == message_fault::fine);
  CHECK(made_message(op::put_bulk, value_type::u8, 0, 81).check(6) == message_fault::bad_size);
}

TEST_CASE("an address must lie in the heap, with all of the value, and be aligned") {
  for (value_type t : all_types) {
    const uint64_t bytes = bytes_of(t);
    INFO("type " << static_cast<int>(t));
    CHECK(made_message(op::put, t, heap - bytes).check() == message_fault::fine);
    CHECK(made_message(op::put, t, heap - bytes + 1).check() == message_fault::outside_heap);
    CHECK(made_message(op::put, t, heap).check() == message_fault::outside_heap);
    CHECK(made_message(op::put, t, max_offset).check() == message_fault::outside_heap);
    for (uint64_t off = 1; off < bytes; ++off)
      CHECK(made_message(op::put, t, 64 + off).check() == message_fault::misaligned);
  }
}

TEST_CASE("a bulk put must lie in the heap with all its bytes") {
  CHECK(made_message(op::put_bulk, value_type::u8, heap - 48, 48).check(5) == message_fault::fine);
  CHECK(made_message(op::put_bulk, value_type::u8, heap - 47, 48).check(5) == message_fault::outside_heap);
  CHECK(made_message(op::put_bulk, value_type::u8, max_offset, 48).check(5) == message_fault::outside_heap);
  CHECK(made_message(op::put_bulk, value_type::u8, 1, 3).check(5) == message_fault::fine);  // any alignment
  unit big[1] = {{{make_word0(op::put_bulk, 0, 0), heap + 16}}};
  CHECK(check_message(big, bulk_units(heap + 16), heap, pes, cells) == message_fault::outside_heap);
}

TEST_CASE("a bulk get names both places with all their bytes, a put with signal its signal too") {
  const auto get = [](uint64_t from, uint64_t bytes, uint32_t pe, uint64_t to) {
    return made_message(op::get_bulk, value_type::u8, from, make_return(pe, to), bytes).check(5);
  };
  CHECK(get(heap - 48, 48, pes - 1, 0) == message_fault::fine);
  CHECK(get(heap - 47, 48, pes - 1, 0) == message_fault::outside_heap);
  CHECK(get(0, 48, pes - 1, heap - 48) == message_fault::fine);
  CHECK(get(0, 48, pes - 1, heap - 47) == message_fault::outside_heap);
  CHECK(get(0, ~0ull, 0, 0) == message_fault::outside_heap);
  CHECK(get(0, 48, pes, 0) == message_fault::bad_pe);
  CHECK(made_message(op::get_bulk, value_type::u8, 0, 0, 8).check(2) == message_fault::bad_size);
  const auto pieces = [](uint64_t list_bytes, uint64_t bytes, uint32_t pe, uint64_t to) {
    const unit request[2] = {{{make_word0(op::get_pieces, 0, 0), list_bytes}}, {{make_return(pe, to), bytes}}};
    return check_message(request, bulk_units(list_bytes + sizeof(unit)), heap, pes, cells);
  };
  CHECK(pieces(16, 24, pes - 1, heap - 48) == message_fault::fine);
  CHECK(pieces(16, 24, pes - 1, heap - 47) == message_fault::outside_heap);
  CHECK(pieces(16, 24, pes, 0) == message_fault::bad_pe);
  CHECK(pieces(12, 24, 0, 0) == message_fault::bad_size);
  for (const uint64_t bytes : {0, 6, (1 << 20) + 4}) CHECK(pieces(16, bytes, 0, 0) == message_fault::bad_size);
  const auto signal = [](uint64_t to, uint64_t bytes, uint64_t at, uint8_t how = 0) {
    return made_message(op::put_signal, static_cast<value_type>(how), to, bytes, at).check(5);
  };
  CHECK(signal(heap - 48, 48, heap - 8) == message_fault::fine);
  CHECK(signal(heap - 48, 48, heap - 8, 1) == message_fault::fine);
  CHECK(signal(heap - 48, 48, heap - 8, 2) == message_fault::bad_type);
  CHECK(signal(heap - 47, 48, 0) == message_fault::outside_heap);
  CHECK(signal(0, 48, heap) == message_fault::outside_heap);
  CHECK(signal(0, 48, ~0ull) == message_fault::outside_heap);
  CHECK(signal(0, 48, 4) == message_fault::misaligned);
  CHECK(signal(0, 0, 8) == message_fault::fine);
  CHECK(units_of(make_word0(op::put_signal, 0, 0), 49) == 6);  // one unit more than a put
  CHECK(made_message(op::bulk_reply, value_type::u8, heap - 47, 48).check(5) == message_fault::outside_heap);
  for (op o : {op::put_bulk, op::put_signal, op::get_bulk, op::get_pieces, op::bulk_reply}) CHECK(is_bulk(o));
  CHECK_FALSE(is_bulk(op::am));
  for (op o : {op::put_reply, op::cell_reply, op::bulk_reply}) CHECK(is_answer(o));
  for (op o : {op::put_bulk, op::get_bulk, op::get, op::fetch, op::put_signal}) CHECK_FALSE(is_answer(o));
}

TEST_CASE("a return address must name a PE of the job and a place in its heap") {
  CHECK(made_message(op::get, value_type::u64, 0, make_return(pes - 1, heap - 8)).check() == message_fault::fine);
  CHECK(made_message(op::get, value_type::u64, 0, make_return(pes, 0)).check() == message_fault::bad_pe);
  CHECK(made_message(op::get, value_type::u64, 0, make_return(0, heap - 7)).check() != message_fault::fine);
  for (op o : fetching_ops) {
    CHECK(made_message(o, value_type::u64, 0, 0, make_return(pes - 1, 5)).check(2) == message_fault::fine);
    CHECK(made_message(o, value_type::u64, 0, 0, make_return(pes, 5)).check(2) == message_fault::bad_pe);
    CHECK(made_message(o, value_type::u64, 0, 0, ~0ull).check(2) == message_fault::bad_pe);
  }
}

TEST_CASE("a reply must name a reply cell") {
  CHECK(made_message(op::cell_reply, value_type::u64, cells - 1).check() == message_fault::fine);
  CHECK(made_message(op::cell_reply, value_type::u64, cells).check() == message_fault::outside_heap);
}

TEST_CASE("every operation and every fault has a name of its own") {
  std::string seen;
  for (int o = 0; o < static_cast<int>(op::count); ++o) {
    const std::string name = std::string("<") + name_of(static_cast<op>(o)) + ">";
    CHECK(seen.find(name) == std::string::npos);
    seen += name;
  }
  CHECK(std::string(name_of(op::put_bulk)) == "gravel_put_bulk");
  CHECK(std::string(name_of(op::compare_swap)) == "gravel_compare_swap");
  CHECK(std::string(name_of(op::fetch_max)) == "gravel_fetch_max");
  CHECK(std::string(name_of(op::swap)) == "gravel_swap");
  CHECK(std::string(name_of(static_cast<op>(99))) == "unknown operation");
  for (message_fault f : {message_fault::bad_op, message_fault::bad_type, message_fault::bad_size,
                          message_fault::outside_heap, message_fault::misaligned, message_fault::bad_handler,
                          message_fault::bad_pe, message_fault::blocking_handler, message_fault::team_call_in_handler,
                          message_fault::outside_kernel, message_fault::not_cooperative, message_fault::on_host})
    CHECK(std::string(name_of(f)).size() > 5);
  for (int c = 0; c < static_cast<int>(other_call::count); ++c)
    CHECK(std::string(name_of(static_cast<other_call>(c))).size() > 5);
}
