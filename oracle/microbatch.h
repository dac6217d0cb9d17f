// One microbatch as the oracle reads it: checked, and with a row s * B + b for every token.
#ifndef PLUMBLINE_ORACLE_MICROBATCH_H_
#define PLUMBLINE_ORACLE_MICROBATCH_H_

#include <cstdint>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "oracle/dropout.h"
#include "oracle/loss.h"

namespace plumbline {

struct Microbatch {
  int64_t sequence = 0;  // S
  int64_t batch = 0;     // B
  std::vector<int64_t> tokens;
  std::vector<int64_t> labels;
  std::vector<int64_t> positions;
  LabelMask counted;
  // Where the document of each position starts, [b][s].
  std::vector<std::vector<int64_t>> first_key;
  DropoutKeys dropout;
};

// Throws InvalidArgument when the batch does not fit the configuration: shapes, tokens and labels
// outside the vocabulary, a mask that is not 0 or 1, document numbers that decrease.
Microbatch MakeMicrobatch(const TransformerConfig& config, const Batch& batch, uint64_t seed,
                          int64_t step);

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_MICROBATCH_H_
