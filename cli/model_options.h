// The model from the arguments given, derived as Megatron-LM derives it.
#ifndef PLUMBLINE_CLI_MODEL_OPTIONS_H_
#define PLUMBLINE_CLI_MODEL_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "cli/given_arguments.h"

namespace plumbline {

// Changes what is given, and what follows from it: the MLP's width, channels of a head, query
// groups, the form of GELU, positions, the padded vocabulary. `notes` gets a line for each argument
// that has no effect in this combination.
//
// Errors: InvalidArgument on contradictions and on sizes that nothing can be derived from.
// Source: Megatron-LM training/arguments.py, validate_args and core_transformer_config_from_args.
void ReadModel(const GivenArguments& given, int tp, TransformerConfig* model,
               std::vector<std::string>* notes);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_MODEL_OPTIONS_H_
