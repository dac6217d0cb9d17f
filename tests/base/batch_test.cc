#include "base/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "base/error.h"

namespace plumbline {
namespace {

std::vector<uint8_t> Bytes(size_t n) {
  std::vector<uint8_t> bytes(n);
  for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 37 + i / 256);
  return bytes;
}

TransformerConfig Model(int64_t seq_length = 16) {
  TransformerConfig model;
  model.seq_length = seq_length;
  return model;
}

TrainConfig Train(int64_t micro_batch_size, int64_t global_batch_size) {
  TrainConfig train;
  train.micro_batch_size = micro_batch_size;
  train.global_batch_size = global_batch_size;
  train.packed_documents = true;
  train.loss_mask_keep = 0.7;
  return train;
}

Tensor RowOf(const Tensor& tensor, int64_t row) { return tensor.Select(0, row); }

TEST(TextBatchesTest, SamplesAreNumberedAcrossStepsAndMicrobatches) {
  const TextBatches batches(Model(), Train(2, 6), Bytes(1000));
  EXPECT_THAT(batches.Get(Context{}, 1, 0).samples, ::testing::ElementsAre(0, 1));
  EXPECT_THAT(batches.Get(Context{}, 1, 2).samples, ::testing::ElementsAre(4, 5));
  EXPECT_THAT(batches.Get(Context{}, 3, 1).samples, ::testing::ElementsAre(14, 15));
}

TEST(TextBatchesTest, TokensAreBytesModuloTheVocabularyWrappingRound) {
  const std::vector<uint8_t> bytes = Bytes(301);  // not a multiple of a sample
  TransformerConfig model = Model();
  model.vocab_size = 61;
  const TextBatches batches(model, Train(2, 4), bytes);
  for (int64_t step : {1, 2, 3, 1000000}) {
    for (int64_t microbatch : {0, 1}) {
      const Batch batch = batches.Get(Context{}, step, microbatch);
      for (int64_t row = 0; row < 2; ++row) {
        for (int64_t i = 0; i < 16; ++i) {
          const int64_t at = batch.samples[row] * 17 + i;
          EXPECT_EQ(batch.tokens.at<int64_t>({row, i}), bytes[at % 301] % 61);
          EXPECT_EQ(batch.labels.at<int64_t>({row, i}), bytes[(at + 1) % 301] % 61);
        }
      }
    }
  }
}

TEST(TextBatchesTest, OneByteIsEnoughAndNoneIsRefused) {
  const Batch batch = TextBatches(Model(), Train(2, 4), {7}).Get(Context{}, 1, 0);
  EXPECT_THAT(batch.labels.ToVector<int64_t>(), ::testing::Each(7));
  EXPECT_THROW(TextBatches(Model(), Train(2, 4), {}), InvalidArgument);
}

// A sample is the same whatever the micro-batch size, so on every layout.
TEST(TextBatchesTest, SampleDoesNotDependOnItsMicrobatch) {
  const TextBatches ones(Model(), Train(1, 8), Bytes(1000));
  const TextBatches fours(Model(), Train(4, 8), Bytes(1000));
  for (int64_t microbatch : {0, 1}) {
    const Batch four = fours.Get(Context{}, 2, microbatch);
    for (int64_t row = 0; row < 4; ++row) {
      const Batch one = ones.Get(Context{}, 2, microbatch * 4 + row);
      EXPECT_EQ(one.samples[0], four.samples[row]);
      for (Tensor Batch::*member :
           {&Batch::tokens, &Batch::labels, &Batch::document_ids, &Batch::position_ids}) {
        EXPECT_EQ(RowOf(one.*member, 0).ToVector<int64_t>(),
                  RowOf(four.*member, row).ToVector<int64_t>());
      }
      EXPECT_EQ(RowOf(one.loss_mask, 0).ToVector<double>(),
                RowOf(four.loss_mask, row).ToVector<double>());
    }
  }
}

TEST(TextBatchesTest, DocumentsHaveOddLengthsAndPositionsRestart) {
  const TextBatches batches(Model(64), Train(4, 8), Bytes(1000));
  std::set<int64_t> lengths;
  int64_t documents = 0;
  for (int64_t step = 1; step <= 8; ++step) {
    const Batch batch = batches.Get(Context{}, step, 0);
    for (int64_t row = 0; row < 4; ++row) {
      int64_t begin = 0;
      for (int64_t i = 0; i < 64; ++i) {
        const int64_t document = batch.document_ids.at<int64_t>({row, i});
        const int64_t before = i == 0 ? 0 : batch.document_ids.at<int64_t>({row, i - 1});
        if (i > 0 && document != before) {
          EXPECT_EQ(document, before + 1);
          EXPECT_EQ((i - begin) % 2, 1) << "step " << step << " row " << row;
          lengths.insert(i - begin);
          begin = i;
          ++documents;
        }
        EXPECT_EQ(batch.position_ids.at<int64_t>({row, i}), i - begin);
      }
    }
  }
  EXPECT_GT(documents, 32) << "on average more than one boundary a sample";
  EXPECT_GT(lengths.size(), 5u);
}

TEST(TextBatchesTest, WithoutPackingThereIsOneDocument) {
  TrainConfig train = Train(2, 4);
  train.packed_documents = false;
  const Batch batch = TextBatches(Model(), train, Bytes(100)).Get(Context{}, 1, 1);
  EXPECT_THAT(batch.document_ids.ToVector<int64_t>(), ::testing::Each(0));
  for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(batch.position_ids.at<int64_t>({1, i}), i);
}

TEST(TextBatchesTest, LossMaskKeepsTheFractionAskedUnevenly) {
  const TextBatches batches(Model(64), Train(4, 8), Bytes(1000));
  double kept = 0;
  std::set<double> counts;
  for (int64_t step = 1; step <= 25; ++step) {
    for (int64_t microbatch : {0, 1}) {
      const std::vector<double> mask =
          batches.Get(Context{}, step, microbatch).loss_mask.ToVector<double>();
      for (double keep : mask) EXPECT_TRUE(keep == 0 || keep == 1);
      counts.insert(std::accumulate(mask.begin(), mask.end(), 0.0));
      kept += std::accumulate(mask.begin(), mask.end(), 0.0);
    }
  }
  // Five standard errors: sqrt(0.7 * 0.3 / 12800) = 4.1e-3.
  EXPECT_NEAR(kept / 12800, 0.7, 2.1e-2);
  EXPECT_GT(counts.size(), 10u);
}

TEST(TextBatchesTest, EverySampleKeepsALabel) {
  TrainConfig train = Train(4, 8);
  train.loss_mask_keep = 1e-9;
  const TextBatches batches(Model(), train, Bytes(100));
  std::set<int64_t> positions;
  for (int64_t step = 1; step <= 10; ++step) {
    const Batch batch = batches.Get(Context{}, step, 0);
    for (int64_t row = 0; row < 4; ++row) {
      const std::vector<double> mask = RowOf(batch.loss_mask, row).ToVector<double>();
      EXPECT_EQ(std::accumulate(mask.begin(), mask.end(), 0.0), 1);
      positions.insert(std::find(mask.begin(), mask.end(), 1) - mask.begin());
    }
  }
  EXPECT_GT(positions.size(), 3u) << "not always the same position";
}

TEST(TextBatchesTest, SeedChangesMaskAndDocumentsButNotTokens) {
  TrainConfig train = Train(4, 8);
  const Batch a = TextBatches(Model(64), train, Bytes(1000)).Get(Context{}, 1, 0);
  train.seed += 1;
  const Batch b = TextBatches(Model(64), train, Bytes(1000)).Get(Context{}, 1, 0);
  EXPECT_EQ(a.tokens.ToVector<int64_t>(), b.tokens.ToVector<int64_t>());
  EXPECT_NE(a.loss_mask.ToVector<double>(), b.loss_mask.ToVector<double>());
  EXPECT_NE(a.document_ids.ToVector<int64_t>(), b.document_ids.ToVector<int64_t>());
}

TEST(TextBatchesTest, ShortestSequenceWorks) {
  const Batch batch = TextBatches(Model(1), Train(2, 2), Bytes(10)).Get(Context{}, 1, 0);
  EXPECT_THAT(batch.loss_mask.ToVector<double>(), ::testing::Each(1));
  EXPECT_THAT(batch.position_ids.ToVector<int64_t>(), ::testing::Each(0));
}

TEST(TextBatchesTest, MicrobatchOutsideTheStepIsABug) {
  const TextBatches batches(Model(), Train(2, 4), Bytes(100));
  EXPECT_THROW(batches.Get(Context{}, 1, 2), Internal);
  EXPECT_THROW(batches.Get(Context{}, 0, 0), Internal);
}

}  // namespace
}  // namespace plumbline
