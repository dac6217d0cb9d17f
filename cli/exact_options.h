// What the ranks compute in: --dtype, and for exact mode --prime and --keys.
#ifndef PLUMBLINE_CLI_EXACT_OPTIONS_H_
#define PLUMBLINE_CLI_EXACT_OPTIONS_H_

#include <cstdint>

#include "base/dtype.h"
#include "cli/given_arguments.h"
#include "scenarios/scenario.h"

namespace plumbline {

// `--dtype exact` is the field of --prime: m61 (the default), p50, or any prime below 2^31. The
// keys come from the seed. Errors: InvalidArgument.
void ReadExact(const GivenArguments& given, uint64_t seed, DType* dtype, ExactOptions* exact);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_EXACT_OPTIONS_H_
