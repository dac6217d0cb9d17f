// Which part of the model each pipeline stage holds, chunk by chunk, and which stages hold a
// tensor.
//
// The model runs through the chunks in the order of chunk * pp + stage. Without more said, each
// holds the same number of layers, the first the embedding, the last the loss;
// decoder_first_pipeline_num_layers and decoder_last_pipeline_num_layers set those of the first and
// the last stage (all chunks together) apart. A layout says everything: one entry per chunk, in the
// order in which the model runs through them, "|" between two; E embedding, t a layer, L the loss;
// x*3 and (...)*3 repeat; commas and blanks mean nothing. So "Et*3|t*4|t*4|tL" on two stages has
// two chunks a stage.
//
// Errors:   InvalidArgument with the rule that a configuration breaks, in Megatron's flag names.
// Source:   Megatron-Core transformer/transformer_layer.py, get_transformer_layer_offset;
//           transformer/pipeline_parallel_layer_layout.py.
#ifndef PLUMBLINE_PARALLEL_PIPELINE_STAGE_LAYOUT_H_
#define PLUMBLINE_PARALLEL_PIPELINE_STAGE_LAYOUT_H_

#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/finding.h"
#include "parallel/model/stage_spec.h"
#include "parallel/pipeline/schedule.h"

namespace plumbline {

class StageLayout {
 public:
  explicit StageLayout(const RunConfig& config);

  int stages() const { return stages_; }
  // Of each stage.
  int chunks() const { return static_cast<int>(specs_.size()) / stages_; }
  const StageSpec& At(int stage, int chunk) const;
  // Where a tensor of docs/sites.md is shown, ascending: by the chunks that make it and, for an
  // activation or its gradient at a border, those that receive it. Norms and counters belong to no
  // chunk (-1) of all stages. A tensor that the model does not have: nowhere.
  std::vector<PipelinePlace> PlacesOf(std::string_view tensor) const;
  // The stages of these places, each once.
  std::vector<int> StagesOf(std::string_view tensor) const;

 private:
  int stages_;
  bool tied_;
  std::vector<StageSpec> specs_;  // in the order in which the model runs through them
};

// How a run's microbatches go through its stages. Checks everything that is said of pipelines.
ScheduleConfig ScheduleConfigOf(const RunConfig& config);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_PIPELINE_STAGE_LAYOUT_H_
