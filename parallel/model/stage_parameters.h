// The parameters that GptModel makes for a model chunk, without making them: names and sizes as
// pure data, at any size of model.
#ifndef PLUMBLINE_PARALLEL_MODEL_STAGE_PARAMETERS_H_
#define PLUMBLINE_PARALLEL_MODEL_STAGE_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "parallel/model/stage_spec.h"

namespace plumbline {

struct StageParameter {
  std::string name;
  int32_t layer = -1;
  // What a sharded model gathers as one: 0 the embedding, 1 + n layer n, the last one the head.
  int unit = 0;
  int64_t elements = 0;  // on each tensor-parallel rank
  // The word table where another pipeline stage holds it too.
  bool shared_embedding = false;

  bool operator==(const StageParameter&) const = default;
};

// In the order of GptModel::parameters(). `config` is valid.
std::vector<StageParameter> StageParameters(const RunConfig& config, const StageSpec& stage);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_STAGE_PARAMETERS_H_
