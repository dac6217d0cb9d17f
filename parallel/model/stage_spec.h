// What part of a GPT one model chunk of a pipeline stage holds.
#ifndef PLUMBLINE_PARALLEL_MODEL_STAGE_SPEC_H_
#define PLUMBLINE_PARALLEL_MODEL_STAGE_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"

namespace plumbline {

// Which layers, by number in the whole model, and whether embedding and loss are here.
struct StageSpec {
  std::vector<int32_t> layers;
  bool pre_process = true;
  bool post_process = true;
  // The activation that comes in, as docs/sites.md names it: "decoder.layers.3.mlp_bda". Empty with
  // pre_process.
  std::string input_tensor = "";
  // Whether it is shown when it comes in. Not where this rank has shown it already: around a chunk
  // without layers.
  bool shows_input = true;

  bool operator==(const StageSpec&) const = default;
};

// All of it, on one stage.
StageSpec WholeModel(const TransformerConfig& model);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_MODEL_STAGE_SPEC_H_
