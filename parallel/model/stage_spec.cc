#include "parallel/model/stage_spec.h"

#include <numeric>

namespace plumbline {

StageSpec WholeModel(const TransformerConfig& model) {
  StageSpec stage;
  stage.layers.resize(static_cast<size_t>(model.num_layers));
  std::iota(stage.layers.begin(), stage.layers.end(), 0);
  return stage;
}

}  // namespace plumbline
