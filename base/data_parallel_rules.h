// Which combinations of data-parallel settings are legal, as data. `plumbline rules` prints them.
//
// Source:   Megatron-LM training/arguments.py, validate_args; Megatron-Core parallel_state.py,
//           distributed/distributed_data_parallel.py, optimizer/distrib_optimizer.py.
#ifndef PLUMBLINE_BASE_DATA_PARALLEL_RULES_H_
#define PLUMBLINE_BASE_DATA_PARALLEL_RULES_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "base/config.h"

namespace plumbline {

enum class RuleSource : uint8_t {
  kMegatron,   // Megatron refuses it, and so does this program
  kPlumbline,  // this program refuses it: Megatron ignores the setting, or it is not modelled
  kLifted,     // Megatron refuses it, this program does not
};
std::string_view Name(RuleSource value);  // "megatron", "plumbline", "lifted"

struct DataParallelRule {
  std::string_view name;  // words joined by dashes
  RuleSource source = RuleSource::kMegatron;
  std::string_view text;  // what must hold, by Megatron's flags; of a lifted rule also why
  bool (*broken)(const RunConfig& config) = nullptr;
};

std::span<const DataParallelRule> DataParallelRules();

// Throws InvalidArgument with text and name of the first rule that is broken, lifted ones apart.
// Needs extents and sizes that are at least 1.
void CheckDataParallel(const RunConfig& config);

}  // namespace plumbline

#endif  // PLUMBLINE_BASE_DATA_PARALLEL_RULES_H_
