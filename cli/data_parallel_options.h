// Data parallelism and low precision from the arguments given, derived as Megatron-LM derives them.
#ifndef PLUMBLINE_CLI_DATA_PARALLEL_OPTIONS_H_
#define PLUMBLINE_CLI_DATA_PARALLEL_OPTIONS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/data_parallel_rules.h"
#include "cli/given_arguments.h"

namespace plumbline {

// What flags may not be given together, or alone. What can be said of a run stands in
// base/data_parallel_rules.h.
struct FlagRule {
  std::string_view name;
  RuleSource source = RuleSource::kMegatron;
  std::string_view text;
  bool (*broken)(const GivenArguments& given) = nullptr;
};
std::span<const FlagRule> DataParallelFlagRules();

// `config` has its model, layout and dtype already. `parallel.data` stays as it is where none of
// the flags is given. Errors: InvalidArgument.
void ReadDataParallel(const GivenArguments& given, RunConfig* config,
                      std::vector<std::string>* notes);

// --bf16, --fp16: what the ranks store and communicate.
void ReadLowPrecision(const GivenArguments& given, DType* dtype);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_DATA_PARALLEL_OPTIONS_H_
