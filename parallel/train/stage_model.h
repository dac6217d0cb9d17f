// The model chunks of one rank, with what their microbatches have under way: what a pipeline
// schedule computes on this stage.
#ifndef PLUMBLINE_PARALLEL_TRAIN_STAGE_MODEL_H_
#define PLUMBLINE_PARALLEL_TRAIN_STAGE_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/data/data_parallel_chunk.h"
#include "parallel/pipeline/executor.h"
#include "parallel/pipeline/stage_layout.h"
#include "parallel/train/forward_step.h"

namespace plumbline {

class StageModel : public StageWork {
 public:
  // What the microbatches of one step add up to; zero but on the last stage.
  struct Totals {
    Tensor loss;
    Tensor labels;
  };

  StageModel(const RankEnv& env, const BatchSource& batches, const StageLayout& layout,
             ForwardStep forward_step);

  // Called when the gradients of a chunk hold those of its microbatches up to this one.
  void OnAccumulated(std::function<void(int chunk, int microbatch)> callback) {
    on_accumulated_ = std::move(callback);
  }
  // Who keeps a chunk's gradients and weights from now on; outlives the model. Without, each
  // parameter has its own main_grad.
  void Attach(int chunk, DataParallelChunk& data_parallel);
  void BeginStep(int64_t step);

  Tensor Forward(int chunk, int microbatch, const Tensor& input) override;
  Tensor Backward(int chunk, int microbatch, const Tensor& doutput) override;
  Tensor BackwardInput(int chunk, int microbatch, const Tensor& doutput) override;
  void BackwardWeight(int chunk, int microbatch) override;

  const Totals& totals() const { return totals_; }
  // Of all chunks, chunk after chunk.
  const std::vector<Parameter*>& parameters() const { return parameters_; }
  const std::vector<Parameter*>& ParametersOf(int chunk) const;
  const std::vector<std::vector<Parameter*>>& UnitsOf(int chunk) const;
  bool has_loss() const { return has_loss_; }
  // Microbatches that were read since the start of the training; chunks that don't agree: the most.
  int64_t microbatches_read() const;
  // The logical id of a message of the current step.
  Site SiteOf(const Operation& message) const;

 private:
  struct UnderWay {
    ForwardState state;
    WeightWork weight_work;
  };
  struct Chunk {
    std::unique_ptr<GptModel> model;
    std::unique_ptr<DataIterator> data;
    DataParallelChunk* data_parallel = nullptr;
    std::map<int, UnderWay> under_way;  // by microbatch
  };

  Pass PassOf(int chunk, int microbatch, Phase phase) const;
  Tensor RunBackward(int chunk, int microbatch, const Tensor& doutput, bool defer);
  void Accumulated(int chunk, int microbatch);

  const RankEnv& env_;
  const StageLayout& layout_;
  const int stage_;
  bool has_loss_ = false;
  ForwardStep forward_step_;
  std::function<void(int, int)> on_accumulated_;
  std::vector<Chunk> chunks_;
  std::vector<Parameter*> parameters_;
  int64_t step_ = 0;
  Totals totals_;
};

// The shape of a hidden state on this rank.
Shape HiddenShape(const RankEnv& env);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TRAIN_STAGE_MODEL_H_
