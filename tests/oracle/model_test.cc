#include "oracle/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/oracle/fixtures.h"

namespace plumbline {
namespace {

class ModelTest : public testing::TestWithParam<ModelCase> {
 protected:
  Batch MakeBatch() const {
    return TextBatches(GetParam().model, GetParam().train, RandomText(1)).Get(Context{}, 1, 0);
  }
  // Logits [S, B, V] of a batch.
  static Tensor Logits(const ModelCase& c, const Batch& batch) {
    Gpt<double> gpt(c.model);
    const Parameters<double> parameters =
        LoadParameters<double>(c.model, SeededParameters(c.model, c.train.seed));
    RecordingSink sink;
    Recorder<double> recorder(&sink);
    const Microbatch microbatch = MakeMicrobatch(c.model, batch, c.train.seed, 1);
    gpt.Forward(parameters, microbatch, recorder);
    return sink.Find(-1, -1, "output_layer", Quantity::kValue)->tensor;
  }
  static bool SameRow(const Tensor& a, const Tensor& b, int64_t position, int64_t sample) {
    return a.Select(0, position).Select(0, sample).ToVector<double>() ==
           b.Select(0, position).Select(0, sample).ToVector<double>();
  }
};

TEST_P(ModelTest, LaterTokensDoNotChangeEarlierLogits) {
  Batch batch = MakeBatch();
  const Tensor before = Logits(GetParam(), batch);
  constexpr int64_t kChanged = 6;
  int64_t& token = batch.tokens.at<int64_t>({1, kChanged});
  token = (token + 1) % GetParam().model.vocab_size;
  const Tensor after = Logits(GetParam(), batch);
  for (int64_t s = 0; s < GetParam().model.seq_length; ++s) {
    EXPECT_TRUE(SameRow(before, after, s, 0)) << "the other sample, position " << s;
    if (s < kChanged) {
      EXPECT_TRUE(SameRow(before, after, s, 1)) << s;
    }
  }
  EXPECT_FALSE(SameRow(before, after, kChanged, 1));
}

TEST_P(ModelTest, DocumentsDoNotLeak) {
  Batch batch = MakeBatch();
  const Tensor before = Logits(GetParam(), batch);
  int64_t& token = batch.tokens.at<int64_t>({0, 0});
  token = (token + 1) % GetParam().model.vocab_size;
  const Tensor after = Logits(GetParam(), batch);
  for (int64_t s = 0; s < GetParam().model.seq_length; ++s) {
    const bool same_document = batch.document_ids.at<int64_t>({0, s}) == 0;
    EXPECT_NE(SameRow(before, after, s, 0), same_document) << s;
  }
}

TEST_P(ModelTest, PermutedSamplesGivePermutedLogits) {
  const Batch batch = MakeBatch();
  Batch swapped = batch;
  for (Tensor Batch::*part : {&Batch::tokens, &Batch::labels, &Batch::loss_mask,
                              &Batch::document_ids, &Batch::position_ids}) {
    Tensor both = (batch.*part).Clone(Context{});
    both.Slice(0, 0, 1).CopyFrom((batch.*part).Slice(0, 1, 2));
    both.Slice(0, 1, 2).CopyFrom((batch.*part).Slice(0, 0, 1));
    swapped.*part = both;
  }
  std::swap(swapped.samples[0], swapped.samples[1]);
  const Tensor a = Logits(GetParam(), batch);
  const Tensor b = Logits(GetParam(), swapped);
  for (int64_t s = 0; s < GetParam().model.seq_length; ++s) {
    const auto rows = [&](const Tensor& t, int64_t sample) {
      return t.Select(0, s).Select(0, sample).ToVector<double>();
    };
    for (int64_t sample : {0, 1}) {
      const std::vector<double> x = rows(a, sample);
      const std::vector<double> y = rows(b, 1 - sample);
      for (size_t j = 0; j < x.size(); ++j) EXPECT_NEAR(x[j], y[j], 1e-13);
    }
  }
}

TEST_P(ModelTest, DropoutIsKeyedBySample) {
  const bool dropout = GetParam().model.hidden_dropout > 0;
  Batch batch = MakeBatch();
  const Tensor before = Logits(GetParam(), batch);
  batch.samples[1] += 1000;
  const Tensor after = Logits(GetParam(), batch);
  EXPECT_TRUE(SameRow(before, after, 3, 0));
  EXPECT_NE(SameRow(before, after, 3, 1), dropout);
}

INSTANTIATE_TEST_SUITE_P(Cases, ModelTest, testing::ValuesIn(AllCases()),
                         [](const auto& info) { return info.param.name; });

// The loss of one token by hand from its logits: which columns take part.
TEST(ModelTest, PaddingRowsTakePartOnlyUnderMegatronsRule) {
  for (const ModelCase& c : AllCases()) {
    if (c.model.padded_vocab_size == c.model.vocab_size) continue;
    const Batch batch = TextBatches(c.model, c.train, RandomText(1)).Get(Context{}, 1, 0);
    Gpt<double> gpt(c.model);
    const Parameters<double> parameters =
        LoadParameters<double>(c.model, SeededParameters(c.model, 1));
    RecordingSink sink;
    Recorder<double> recorder(&sink);
    const Microbatch microbatch = MakeMicrobatch(c.model, batch, 1, 1);
    const Matrix<double> loss = gpt.Forward(parameters, microbatch, recorder);
    const std::vector<double> logits = sink.Find(-1, -1, "output_layer", Quantity::kValue)
                                           ->tensor.Select(0, 0)
                                           .Select(0, 0)
                                           .ToVector<double>();
    const bool all = c.model.vocab_padding == VocabPadding::kMegatron;
    const auto classes = static_cast<size_t>(all ? c.model.padded_vocab_size : c.model.vocab_size);
    double z = 0;
    for (size_t j = 0; j < classes; ++j) z += std::exp(logits[j]);
    const double s = c.model.label_smoothing;
    double expected = std::log(z);
    for (size_t j = 0; j < classes; ++j) {
      const bool target = static_cast<int64_t>(j) == microbatch.labels[0];
      expected -= logits[j] * (target ? 1 - s : s / static_cast<double>(classes - 1));
    }
    EXPECT_NEAR(loss(0, 0), expected, 1e-13) << c.name;
  }
}

}  // namespace
}  // namespace plumbline
