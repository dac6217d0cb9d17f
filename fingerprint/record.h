// What each rank says about each collective, as plain data.
#ifndef PLUMBLINE_FINGERPRINT_RECORD_H_
#define PLUMBLINE_FINGERPRINT_RECORD_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/mesh.h"
#include "base/site.h"
#include "base/tensor.h"

namespace plumbline {

// XXH3-128 of a payload's bytes in row-major order.
struct Checksum {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Checksum&) const = default;
};
Checksum ChecksumOf(const Tensor& tensor);
std::string ToString(const Checksum& checksum);  // 32 hex digits

// The same over a payload that comes in pieces, so that it can share a pass over memory.
class ChecksumStream {
 public:
  ChecksumStream();
  ~ChecksumStream();
  ChecksumStream(ChecksumStream&&) noexcept;
  ChecksumStream& operator=(ChecksumStream&&) noexcept;

  void Update(const std::byte* bytes, size_t count);
  Checksum Digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// One call of one rank. `op` and `reduce_op` are names ("all_reduce", "sum"), so that this folder
// knows only base/.
struct CollectiveRecord {
  int global_rank = -1;
  std::string group_name;
  std::shared_ptr<const std::vector<int>> members;
  uint64_t group_hash = 0;
  // Counts this rank's collectives on this group (by hash), from 0; for send and recv the messages
  // of one source, destination and tag, on which both ends agree.
  int64_t sequence = 0;
  std::string_view op;         // static storage
  std::string_view reduce_op;  // static storage; empty when nothing is reduced
  int peer = -1;               // root or peer, as position in the group; -1: none
  int tag = 0;
  DType dtype = DType::kF64;
  Shape input_shape;
  Shape output_shape;
  std::vector<int64_t> input_splits;
  std::vector<int64_t> output_splits;
  double pre_scale = 1;  // applied by the caller to the payload before / after; 1: none
  double post_scale = 1;
  Site site;
  Checksum before;               // of the input at issue
  Checksum after;                // of the output at completion
  int64_t issue_time = 0;        // simulated: the world's count of scheduling steps
  int64_t completion_time = -1;  // -1: never completed
};

// "tp{2,3}"
std::string GroupText(const CollectiveRecord& record);
// "all_reduce sum f32[1024] layer 2 mlp.linear_fc2 forward"
std::string CallText(const CollectiveRecord& record);
// "rank 3 seq 41 tp{2,3}: all_reduce sum f32[1024] layer 2 mlp.linear_fc2 forward"
std::string ToString(const CollectiveRecord& record);

}  // namespace plumbline

#endif  // PLUMBLINE_FINGERPRINT_RECORD_H_
