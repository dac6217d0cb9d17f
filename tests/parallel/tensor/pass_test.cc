#include "parallel/tensor/pass.h"

#include <gtest/gtest.h>

#include "base/config.h"

namespace plumbline {
namespace {

Batch SmallBatch() {
  const Context context;
  Batch batch;
  batch.tokens = Tensor::FromVector<int64_t>(context, {2, 3}, {1, 2, 3, 4, 5, 6});
  batch.labels = Tensor::FromVector<int64_t>(context, {2, 3}, {2, 3, 4, 5, 6, 7});
  batch.loss_mask = Tensor::FromVector<double>(context, {2, 3}, {1, 0, 1, 1, 1, 0});
  batch.document_ids = Tensor::Zeros(context, DType::kI64, {2, 3});
  batch.position_ids = Tensor::FromVector<int64_t>(context, {2, 3}, {0, 1, 2, 0, 1, 2});
  batch.samples = {8, 9};
  return batch;
}

TEST(Microbatch, LabelsAndMaskComeSequenceFirst) {
  const Microbatch microbatch = MakeMicrobatch(Context{}, SmallBatch(), DType::kF64, false);
  EXPECT_EQ(microbatch.targets.ToVector<int64_t>(), (std::vector<int64_t>{2, 5, 3, 6, 4, 7}));
  EXPECT_EQ(microbatch.loss_mask.ToVector<double>(), (std::vector<double>{1, 1, 0, 1, 1, 0}));
  EXPECT_EQ(microbatch.label_count, 4);
  EXPECT_EQ(microbatch.batch.samples, (std::vector<int64_t>{8, 9}));
}

TEST(Microbatch, TheMaskHasTheRunsDtype) {
  const Microbatch microbatch = MakeMicrobatch(Context{}, SmallBatch(), DType::kF32, true);
  EXPECT_EQ(microbatch.loss_mask.dtype(), DType::kF32);
  EXPECT_TRUE(microbatch.packed);
}

TEST(Pass, SiteSaysWhereTheMicrobatchIs) {
  const Pass pass{.step = 2, .microbatch = 5, .phase = Phase::kBackward};
  const Site site =
      SiteAt(MakeSite(3, "decoder.layers.3.mlp.linear_fc1"), pass, Quantity::kGradient);
  EXPECT_EQ(ToString(site),
            "step 2 microbatch 5 backward decoder.layers.3.mlp.linear_fc1 gradient");
  EXPECT_EQ(site.layer, 3);
  EXPECT_EQ(site.chunk, -1);
}

}  // namespace
}  // namespace plumbline
