// Golden files: training runs of an outside implementation, which the oracle must repeat.
//
// A file is safetensors with its configuration as JSON under the metadata key `config`: tokens,
// loss_mask, document_ids when packed, init/P, grad/P, final/P, final_exp_avg/P,
// final_exp_avg_sq/P for each parameter P, forward/..., losses and grad_norms.
//
// Numerics: the deviation of a tensor is max|actual - golden| / max|golden|, 0/0 being 0.
// Errors:   IoError when the file can't be read; InvalidArgument, naming file and key, when it is
//           malformed or asks for what the oracle does not model.
#ifndef PLUMBLINE_ORACLE_GOLDEN_H_
#define PLUMBLINE_ORACLE_GOLDEN_H_

#include <cstdint>
#include <string>
#include <vector>

namespace plumbline {

// One quantity, over all its tensors.
struct GoldenQuantity {
  std::string name;      // "embedding", "layer outputs", "logits", "losses", "gradients", ...
  int64_t tensors = 0;   // how many were compared
  double deviation = 0;  // of the worst tensor
  std::string tensor;    // that tensor, as the file names it
  int64_t index = -1;    // row-major, of its largest difference; -1: all are equal
  double actual = 0;     // the oracle's value there
  double expected = 0;   // the file's
};

struct GoldenReport {
  std::string path;
  std::vector<GoldenQuantity> quantities;  // in the order of training

  // Whether every quantity is within `bound`; a NaN is not.
  bool Within(double bound) const;
};

GoldenReport CheckGolden(const std::string& path);

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_GOLDEN_H_
