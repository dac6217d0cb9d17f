// A typed result about the program under test. Findings are the product; they are not errors
// (base/error.h).
#ifndef PLUMBLINE_BASE_FINDING_H_
#define PLUMBLINE_BASE_FINDING_H_

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/site.h"

namespace plumbline {

enum class FindingClass : uint8_t {
  kValueMismatch,       // a tensor differs from the reference
  kReplicaMismatch,     // copies that must be equal differ
  kNonFinite,           // NaN or inf where the reference has none
  kMissingTensor,       // the reference has it, a rank never showed it (or the other way round)
  kCollectiveMismatch,  // ranks of a group disagree about a collective
  kPayloadChanged,      // a buffer changed while it was in flight
  kDeadlock,            // no rank can run
  kBufferLayout,        // buffers that cannot be shared out as they are
  kUnusedParameter,     // no gradient came where one is due
  kPrematureUse,        // a parameter was used before it was gathered
  kAccumulation,        // main_grad is not the sum of the microbatches' gradients, in order
};
std::string_view Name(FindingClass value);  // "value_mismatch", ...

// Where in a pipeline: a stage, and which of its chunks; -1 when that is not one.
struct PipelinePlace {
  int stage = 0;
  int chunk = -1;

  friend auto operator<=>(const PipelinePlace&, const PipelinePlace&) = default;
};

struct Finding {
  FindingClass kind = FindingClass::kValueMismatch;
  Site site;
  std::vector<int> ranks;             // the ranks that are wrong (not all that were looked at)
  std::vector<PipelinePlace> places;  // of these ranks, ascending; empty without a pipeline
  std::string group;                  // "tp{0,1}", or empty
  std::string actual;                 // value with its index, or what one side says
  std::string reference;              // value with its index, or what the other side says
  std::string formula;                // "actual = 2 * reference", or empty when none fits
  double residual = 0;  // of the formula, relative to the reference's largest magnitude
  std::string repeat;   // the command line that repeats it
  std::string message;  // one line: who, where, what, both values
};

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_FINDING_H_
