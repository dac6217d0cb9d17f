#include "fingerprint/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

// The header-only form: vectorised for the build's target, about twice the library's speed.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <iterator>

namespace plumbline {
namespace {

// The hash of a strided tensor's elements in row-major order, without packing them first.
XXH128_hash_t HashStrided(const Tensor& tensor) {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const std::byte* first = tensor.raw();
  const int64_t size = static_cast<int64_t>(SizeOf(tensor.dtype()));
  ForEachRun(tensor, tensor, [&](int64_t offset, int64_t, int64_t n) {
    XXH3_128bits_update(&state, first + offset * size, static_cast<size_t>(n * size));
  });
  return XXH3_128bits_digest(&state);
}

}  // namespace

Checksum ChecksumOf(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  const XXH128_hash_t hash =
      tensor.contiguous() ? XXH3_128bits(tensor.raw(), tensor.bytes()) : HashStrided(tensor);
  return {hash.low64, hash.high64};
}

struct ChecksumStream::State {
  XXH3_state_t hash;
};

ChecksumStream::ChecksumStream() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->hash);
}
ChecksumStream::~ChecksumStream() = default;
ChecksumStream::ChecksumStream(ChecksumStream&&) noexcept = default;
ChecksumStream& ChecksumStream::operator=(ChecksumStream&&) noexcept = default;

void ChecksumStream::Update(const std::byte* bytes, size_t count) {
  XXH3_128bits_update(&state_->hash, bytes, count);
}

Checksum ChecksumStream::Digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->hash);
  return {hash.low64, hash.high64};
}

std::string ToString(const Checksum& checksum) {
  return fmt::format("{:016x}{:016x}", checksum.high, checksum.low);
}

std::string GroupText(const CollectiveRecord& record) {
  Group group;
  group.name = record.group_name;
  if (record.members != nullptr) group.members = *record.members;
  return ToString(group);
}

std::string CallText(const CollectiveRecord& record) {
  fmt::memory_buffer text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}", record.op);
  if (!record.reduce_op.empty()) fmt::format_to(out, " {}", record.reduce_op);
  const bool receives = record.op == "recv";
  if (record.op != "barrier") {
    fmt::format_to(out, " {}{}", Name(record.dtype),
                   ToString(receives ? record.output_shape : record.input_shape));
  }
  if (!record.input_splits.empty() || !record.output_splits.empty()) {
    fmt::format_to(out, " splits [{}] to [{}]", fmt::join(record.input_splits, ", "),
                   fmt::join(record.output_splits, ", "));
  }
  if (record.op == "broadcast") fmt::format_to(out, " root {}", record.peer);
  if (receives || record.op == "send") {
    const int peer = record.members == nullptr ? record.peer : record.members->at(record.peer);
    fmt::format_to(out, " {} rank {} tag {}", receives ? "from" : "to", peer, record.tag);
  }
  fmt::format_to(out, " {}", ToString(record.site));
  return fmt::to_string(text);
}

std::string ToString(const CollectiveRecord& record) {
  return fmt::format("rank {} seq {} {}: {}", record.global_rank, record.sequence,
                     GroupText(record), CallText(record));
}

}  // namespace plumbline
