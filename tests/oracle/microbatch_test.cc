#include "oracle/microbatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

Batch MakeBatch(const ModelCase& c) {
  return TextBatches(c.model, c.train, RandomText(1)).Get(Context{}, 2, 1);
}

TEST(MicrobatchTest, RowsGoSequenceFirst) {
  const ModelCase c = LlamaCase();
  const Batch batch = MakeBatch(c);
  const Microbatch microbatch = MakeMicrobatch(c.model, batch, 5, 2);
  ASSERT_EQ(microbatch.batch, 2);
  ASSERT_EQ(microbatch.sequence, 11);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t s = 0; s < 11; ++s) {
      const auto row = static_cast<size_t>(s * 2 + b);
      EXPECT_EQ(microbatch.tokens[row], batch.tokens.at<int64_t>({b, s}));
      EXPECT_EQ(microbatch.labels[row], batch.labels.at<int64_t>({b, s}));
      EXPECT_EQ(microbatch.positions[row], batch.position_ids.at<int64_t>({b, s}));
      EXPECT_EQ(microbatch.counted[row], batch.loss_mask.at<double>({b, s}) == 1);
      // A document starts where its positions do.
      EXPECT_EQ(microbatch.first_key[b][s], s - batch.position_ids.at<int64_t>({b, s}));
    }
  }
  EXPECT_EQ(microbatch.dropout.seed, 5u);
  EXPECT_EQ(microbatch.dropout.step, 2);
  EXPECT_THAT(microbatch.dropout.samples, testing::ElementsAre(8, 9));
}

struct BadBatch {
  std::string name;
  std::function<void(Batch&)> spoil;
  std::string message;
};

class BadBatchTest : public testing::TestWithParam<BadBatch> {};

TEST_P(BadBatchTest, IsRefusedWithItsReason) {
  const ModelCase c = SmallCase("");
  Batch batch = MakeBatch(c);
  GetParam().spoil(batch);
  try {
    MakeMicrobatch(c.model, batch, 1, 1);
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Batches, BadBatchTest,
    testing::Values(
        BadBatch{"shape", [](Batch& b) { b.labels = b.labels.Slice(1, 0, 5); }, "labels has shape"},
        BadBatch{"missing", [](Batch& b) { b.loss_mask = Tensor(); }, "loss_mask has shape none"},
        BadBatch{"samples", [](Batch& b) { b.samples.pop_back(); }, "tokens has shape [2, 11]"},
        BadBatch{"token",
                 [](Batch& b) {
                   b.tokens.at<int64_t>({1, 2}) = 37;
                 },
                 "token 37"},
        BadBatch{"label",
                 [](Batch& b) {
                   b.labels.at<int64_t>({0, 2}) = -1;
                 },
                 "label -1"},
        BadBatch{"position",
                 [](Batch& b) {
                   b.position_ids.at<int64_t>({0, 2}) = 13;
                 },
                 "position 13"},
        BadBatch{"mask",
                 [](Batch& b) {
                   b.loss_mask.at<double>({0, 2}) = 0.5;
                 },
                 "loss_mask 0.5"},
        BadBatch{"documents",
                 [](Batch& b) {
                   b.document_ids.at<int64_t>({1, 3}) = 5;
                   b.document_ids.at<int64_t>({1, 4}) = 4;
                 },
                 "document 4 follows 5 in sample 1"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace plumbline
