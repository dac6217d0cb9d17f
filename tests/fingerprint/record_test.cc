#include "fingerprint/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace plumbline {
namespace {

TEST(Checksum, IsXxh3OfTheBytes) {
  // XXH3-128 of nothing with seed 0, as published in xxHash's specification.
  const Tensor empty = Tensor::Zeros(Context(), DType::kF64, {0, 3});
  EXPECT_EQ(ToString(ChecksumOf(empty)), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(ChecksumOf(Tensor()), Checksum());
}

TEST(Checksum, LooksAtEveryByte) {
  Tensor x = Tensor::Zeros(Context(), DType::kF32, {50});
  const Checksum zero = ChecksumOf(x);
  EXPECT_EQ(zero, ChecksumOf(x.Clone(Context())));
  for (size_t byte = 0; byte < x.bytes(); ++byte) {
    x.raw()[byte] = std::byte{1};
    EXPECT_FALSE(ChecksumOf(x) == zero) << byte;
    x.raw()[byte] = std::byte{0};
  }
}

TEST(Checksum, StridesDontMatter) {
  std::vector<double> values(3000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const Tensor x = Tensor::FromVector<double>(Context(), {30, 10, 10}, values);
  for (const Tensor& view : {x.Transpose(0, 1), x.Slice(1, 2, 7), x.Slice(2, 3, 4)}) {
    EXPECT_EQ(ChecksumOf(view), ChecksumOf(view.Clone(Context())));
  }
  EXPECT_FALSE(ChecksumOf(x) == ChecksumOf(x.Transpose(0, 1)));
}

TEST(Checksum, OfPiecesIsThatOfTheWhole) {
  std::vector<double> values(3000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const Tensor x = Tensor::FromVector<double>(Context(), {3000}, values);
  for (size_t piece : {1u, 100u, 4096u, 24000u}) {
    ChecksumStream stream;
    for (size_t begin = 0; begin < x.bytes(); begin += piece) {
      stream.Update(x.raw() + begin, std::min(piece, x.bytes() - begin));
    }
    EXPECT_EQ(stream.Digest(), ChecksumOf(x)) << piece;
  }
}

CollectiveRecord Example() {
  CollectiveRecord record;
  record.global_rank = 3;
  record.group_name = "tp";
  record.members = std::make_shared<const std::vector<int>>(std::vector<int>{2, 3});
  record.sequence = 41;
  record.op = "all_reduce";
  record.reduce_op = "sum";
  record.dtype = DType::kF32;
  record.input_shape = {16, 64};
  record.output_shape = {16, 64};
  record.site.step = 1;
  record.site.microbatch = 0;
  record.site.tensor = "decoder.layers.2.mlp.linear_fc2";
  return record;
}

TEST(RecordText, SaysWhoWhereAndWhat) {
  CollectiveRecord record = Example();
  EXPECT_EQ(ToString(record),
            "rank 3 seq 41 tp{2,3}: all_reduce sum f32[16, 64] step 1 microbatch 0 forward "
            "decoder.layers.2.mlp.linear_fc2 value");
  record.reduce_op = {};
  record.op = "broadcast";
  record.peer = 1;
  EXPECT_EQ(CallText(record).substr(0, 27), "broadcast f32[16, 64] root ");
  record.op = "recv";
  record.tag = 5;
  record.output_shape = {7};
  EXPECT_EQ(CallText(record).substr(0, 30), "recv f32[7] from rank 3 tag 5 ");
  record.op = "send";
  EXPECT_EQ(CallText(record).substr(0, 33), "send f32[16, 64] to rank 3 tag 5 ");
  record.op = "all_to_all";
  record.input_splits = {6, 10};
  record.output_splits = {6, 1};
  EXPECT_EQ(CallText(record).substr(0, 46), "all_to_all f32[16, 64] splits [6, 10] to [6, 1");
  record = Example();
  record.op = "barrier";
  record.reduce_op = {};
  EXPECT_EQ(CallText(record).substr(0, 14), "barrier step 1");
}

}  // namespace
}  // namespace plumbline
