#include "base/batch.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rng.h"

namespace plumbline {
namespace {

// Labels that count. A sample keeps at least one, so that no microbatch divides by zero.
void FillLossMask(const TrainConfig& train, int64_t sample, int64_t length, double* mask) {
  const RandomStream stream = DataStream(train.seed, "loss_mask");
  const uint64_t first = static_cast<uint64_t>(sample) * static_cast<uint64_t>(length);
  bool any = false;
  for (int64_t i = 0; i < length; ++i) {
    const bool keep = stream.Uniform(first + static_cast<uint64_t>(i)) < train.loss_mask_keep;
    mask[i] = keep ? 1 : 0;
    any = any || keep;
  }
  if (any) return;
  const uint64_t draw =
      DataStream(train.seed, "loss_mask_least").Bits(static_cast<uint64_t>(sample));
  mask[draw % static_cast<uint64_t>(length)] = 1;
}

// Documents of odd lengths (the last is cut off where the sequence ends), about four a sequence.
void FillDocuments(const TrainConfig& train, int64_t sample, int64_t length, int64_t* document_ids,
                   int64_t* position_ids) {
  const RandomStream stream = DataStream(train.seed, "documents");
  const uint64_t choices = static_cast<uint64_t>(std::max<int64_t>(1, length / 4));
  const uint64_t first = static_cast<uint64_t>(sample) * static_cast<uint64_t>(length);
  int64_t begin = 0;
  for (int64_t document = 0; begin < length; ++document) {
    int64_t end = length;
    if (train.packed_documents) {
      const uint64_t draw = stream.Bits(first + static_cast<uint64_t>(document)) % choices;
      end = std::min(length, begin + 1 + 2 * static_cast<int64_t>(draw));
    }
    for (int64_t i = begin; i < end; ++i) {
      document_ids[i] = document;
      position_ids[i] = i - begin;
    }
    begin = end;
  }
}

}  // namespace

TextBatches::TextBatches(const TransformerConfig& model, const TrainConfig& train,
                         std::vector<uint8_t> bytes)
    : model_(model), train_(train), bytes_(std::move(bytes)) {
  if (bytes_.empty()) throw InvalidArgument("the text is empty; expected at least one byte");
}

Batch TextBatches::Get(const Context& context, int64_t step, int64_t microbatch) const {
  PL_CHECK(step >= 1);
  PL_CHECK(microbatch >= 0);
  PL_CHECK(microbatch < train_.global_microbatches());
  const int64_t rows = train_.micro_batch_size;
  const int64_t length = model_.seq_length;
  const Shape shape = {rows, length};
  Batch batch;
  batch.tokens = Tensor::Empty(context, DType::kI64, shape, MemoryCategory::kOther);
  batch.labels = Tensor::Empty(context, DType::kI64, shape, MemoryCategory::kOther);
  batch.loss_mask = Tensor::Empty(context, DType::kF64, shape, MemoryCategory::kOther);
  batch.document_ids = Tensor::Empty(context, DType::kI64, shape, MemoryCategory::kOther);
  batch.position_ids = Tensor::Empty(context, DType::kI64, shape, MemoryCategory::kOther);
  const uint64_t size = bytes_.size();
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t sample =
        (step - 1) * train_.global_batch_size + microbatch * train_.micro_batch_size + row;
    batch.samples.push_back(sample);
    int64_t* tokens = batch.tokens.data<int64_t>() + row * length;
    int64_t* labels = batch.labels.data<int64_t>() + row * length;
    uint64_t at = static_cast<uint64_t>(static_cast<unsigned __int128>(sample) *
                                        static_cast<uint64_t>(length + 1) % size);
    for (int64_t i = 0; i < length; ++i) {
      tokens[i] = bytes_[at] % model_.vocab_size;
      at = at + 1 == size ? 0 : at + 1;
      labels[i] = bytes_[at] % model_.vocab_size;
    }
    FillLossMask(train_, sample, length, batch.loss_mask.data<double>() + row * length);
    FillDocuments(train_, sample, length, batch.document_ids.data<int64_t>() + row * length,
                  batch.position_ids.data<int64_t>() + row * length);
  }
  return batch;
}

}  // namespace plumbline
