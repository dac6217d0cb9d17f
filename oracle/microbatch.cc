#include "oracle/microbatch.h"

#include <string_view>

#include "base/error.h"

namespace plumbline {
namespace {

void CheckShape(std::string_view what, const Tensor& tensor, const Shape& expected) {
  if (!tensor.defined() || tensor.shape() != expected) {
    throw InvalidArgument("batch: {} has shape {}, expected {}", what,
                          tensor.defined() ? ToString(tensor.shape()) : "none", ToString(expected));
  }
}

// Values of [B, S] by row s * B + b.
template <class T>
std::vector<T> BySequence(const Tensor& tensor) {
  const std::vector<T> values = tensor.ToVector<T>();
  const int64_t batch = tensor.dim(0);
  const int64_t sequence = tensor.dim(1);
  std::vector<T> result(values.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < sequence; ++s) {
      result[static_cast<size_t>(s * batch + b)] = values[static_cast<size_t>(b * sequence + s)];
    }
  }
  return result;
}

void CheckRange(std::string_view what, const std::vector<int64_t>& values, int64_t end) {
  for (int64_t value : values) {
    if (value < 0 || value >= end) {
      throw InvalidArgument("batch: {} {} is outside [0, {})", what, value, end);
    }
  }
}

std::vector<std::vector<int64_t>> DocumentStarts(const Tensor& document_ids) {
  const std::vector<int64_t> ids = document_ids.ToVector<int64_t>();
  const int64_t sequence = document_ids.dim(1);
  std::vector<std::vector<int64_t>> starts;
  for (int64_t b = 0; b < document_ids.dim(0); ++b) {
    const int64_t* id = ids.data() + b * sequence;
    std::vector<int64_t> first(static_cast<size_t>(sequence), 0);
    for (int64_t s = 1; s < sequence; ++s) {
      if (id[s] < id[s - 1]) {
        throw InvalidArgument("batch: document {} follows {} in sample {}; expected no decrease",
                              id[s], id[s - 1], b);
      }
      const auto at = static_cast<size_t>(s);
      first[at] = id[s] == id[s - 1] ? first[at - 1] : s;
    }
    starts.push_back(std::move(first));
  }
  return starts;
}

}  // namespace

Microbatch MakeMicrobatch(const TransformerConfig& config, const Batch& batch, uint64_t seed,
                          int64_t step) {
  const Shape shape = {static_cast<int64_t>(batch.samples.size()), config.seq_length};
  CheckShape("tokens", batch.tokens, shape);
  CheckShape("labels", batch.labels, shape);
  CheckShape("loss_mask", batch.loss_mask, shape);
  CheckShape("document_ids", batch.document_ids, shape);
  CheckShape("position_ids", batch.position_ids, shape);

  Microbatch result;
  result.sequence = shape[1];
  result.batch = shape[0];
  result.tokens = BySequence<int64_t>(batch.tokens);
  result.labels = BySequence<int64_t>(batch.labels);
  result.positions = BySequence<int64_t>(batch.position_ids);
  CheckRange("token", result.tokens, config.vocab_size);
  CheckRange("label", result.labels, config.vocab_size);
  CheckRange("position", result.positions,
             config.position_embedding == PositionEmbedding::kLearnedAbsolute
                 ? config.max_position_embeddings
                 : config.seq_length);
  for (double weight : BySequence<double>(batch.loss_mask)) {
    if (!(weight == 0 || weight == 1)) {
      throw InvalidArgument("batch: loss_mask {}; expected 0 or 1", weight);
    }
    result.counted.push_back(weight == 1);
  }
  result.first_key = DocumentStarts(batch.document_ids);
  result.dropout = {seed, step, batch.samples};
  return result;
}

}  // namespace plumbline
