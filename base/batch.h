// Training samples: tokens of a file, with loss mask and document boundaries from the seed. The
// same sample is the same on every layout, because everything is a function of (seed, sample).
#ifndef PLUMBLINE_BASE_BATCH_H_
#define PLUMBLINE_BASE_BATCH_H_

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/tensor.h"

namespace plumbline {

// One microbatch.
struct Batch {
  Tensor tokens;                 // i64 [B, S]
  Tensor labels;                 // i64 [B, S]: the next token
  Tensor loss_mask;              // f64 [B, S], 0 or 1 per label
  Tensor document_ids;           // i64 [B, S], never decreasing; all 0 without packing
  Tensor position_ids;           // i64 [B, S]; restart at each document
  std::vector<int64_t> samples;  // global sample number of each row; keys dropout
};

// Where microbatches come from. Implementations: TextBatches (below), the golden files' (tests,
// cli).
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Step counts from 1; `microbatch` is the global one, 0 .. global_microbatches - 1. Its samples
  // are (step - 1) * global_batch_size + microbatch * micro_batch_size + 0 .. micro_batch_size - 1.
  virtual Batch Get(const Context& context, int64_t step, int64_t microbatch) const = 0;
};

// Bytes of a file modulo the vocabulary, seq_length + 1 a sample, wrapping round at the end of the
// file.
class TextBatches : public BatchSource {
 public:
  // Throws InvalidArgument when `bytes` is empty.
  TextBatches(const TransformerConfig& model, const TrainConfig& train, std::vector<uint8_t> bytes);
  Batch Get(const Context& context, int64_t step, int64_t microbatch) const override;

 private:
  TransformerConfig model_;
  TrainConfig train_;
  std::vector<uint8_t> bytes_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_BATCH_H_
