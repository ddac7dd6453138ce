#include "transport/ucx_memory.hpp"

#include "transport/ucx_quirks.hpp"
#include "transport/ucx_wire.hpp"

namespace gravel::detail {

ucx_memory::ucx_memory(ucx_context& context, void* address, size_t bytes)
    : context_(context), address_(address), bytes_(bytes) {
  register_here();
}

ucx_memory::ucx_memory(ucx_context& context, int file, void* mapped, size_t bytes)
    : context_(context), address_(mapped), bytes_(bytes) {
  if (!share(file)) register_here();
}

void ucx_memory::register_here() {
  if (!address_ || !bytes_) fail("UCX: cannot register {} bytes at {}", bytes_, address_);
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = address_;
  params.length = bytes_;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  ucx_check(ucp_mem_map(context_.handle(), &params, &handle_),
            "UCX: cannot register {} bytes at {} (the limit on locked memory, `ulimit -l`, may be too low)", bytes_,
            address_);
}

bool ucx_memory::share(int file) {
  const segment_offer offer(file);
  ucp_mem_map_params_t params{};
  params.field_mask =
      UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.length = bytes_;
  params.flags = UCP_MEM_MAP_ALLOCATE;
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  if (ucp_mem_map(context_.handle(), &params, &handle_) != UCS_OK) return false;
  ucp_mem_attr_t made{};
  made.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS;
  if (offer.is_taken() && ucp_mem_query(handle_, &made) == UCS_OK) {
    address_ = made.address;
    return true;
  }
  ucp_mem_unmap(context_.handle(), handle_);
  return false;
}

ucx_memory::~ucx_memory() { ucp_mem_unmap(context_.handle(), handle_); }

std::vector<std::byte> ucx_memory::packed_key() const {
  void* key = nullptr;
  size_t key_bytes = 0;
  ucx_check(ucp_rkey_pack(context_.handle(), handle_, &key, &key_bytes), "UCX: cannot pack the key of {} bytes at {}",
            bytes_, address_);
  const auto* const first = static_cast<const std::byte*>(key);
  const ucx_memory_key packed{ucx_release(), reinterpret_cast<uint64_t>(address_), bytes_, {first, first + key_bytes}};
  ucp_rkey_buffer_release(key);
  return to_wire(packed);
}

bool ucx_memory::contains(const void* start, size_t bytes) const {
  const auto offset = reinterpret_cast<uintptr_t>(start) - reinterpret_cast<uintptr_t>(address_);
  return offset <= bytes_ && bytes <= bytes_ - offset;  // a start below the memory wraps to a huge offset
}

}  // namespace gravel::detail
