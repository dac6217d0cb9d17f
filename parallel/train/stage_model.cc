#include "parallel/train/stage_model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "kernels/elementwise.h"

namespace plumbline {
namespace {

Tensor ZeroScalar(const RankEnv& env) {
  return Tensor::Zeros(env.context(), env.config().main_dtype(), {}, MemoryCategory::kOther);
}

}  // namespace

Shape HiddenShape(const RankEnv& env) {
  return {static_cast<int64_t>(env.hidden_rows().size()), env.config().train.micro_batch_size,
          env.model().hidden_size};
}

StageModel::StageModel(const RankEnv& env, const BatchSource& batches, const StageLayout& layout,
                       ForwardStep forward_step)
    : env_(env),
      layout_(layout),
      stage_(env.mesh().CoordinateOf(env.global_rank(), "pp")),
      forward_step_(std::move(forward_step)) {
  for (int chunk = 0; chunk < layout.chunks(); ++chunk) {
    StageSpec spec = layout.At(stage_, chunk);
    for (int32_t& layer : spec.layers) {
      layer = env.policies().pipeline.layer_number(stage_, chunk, layer);
    }
    has_loss_ = has_loss_ || spec.post_process;
    Chunk& added = chunks_.emplace_back();
    added.model = std::make_unique<GptModel>(env, spec);
    added.data = std::make_unique<DataIterator>(env, batches, spec);
    const std::vector<Parameter*>& parameters = added.model->parameters();
    parameters_.insert(parameters_.end(), parameters.begin(), parameters.end());
  }
}

const std::vector<Parameter*>& StageModel::ParametersOf(int chunk) const {
  return chunks_[static_cast<size_t>(chunk)].model->parameters();
}

const std::vector<std::vector<Parameter*>>& StageModel::UnitsOf(int chunk) const {
  return chunks_[static_cast<size_t>(chunk)].model->units();
}

void StageModel::Attach(int chunk, DataParallelChunk& data_parallel) {
  Chunk& own = chunks_[static_cast<size_t>(chunk)];
  own.data_parallel = &data_parallel;
  own.model->SetHooks(&data_parallel);
}

void StageModel::BeginStep(int64_t step) {
  step_ = step;
  totals_ = {ZeroScalar(env_), ZeroScalar(env_)};
  for (Chunk& chunk : chunks_) {
    if (chunk.data_parallel != nullptr) {
      chunk.data_parallel->BeginStep(step);
      continue;
    }
    for (Parameter* parameter : chunk.model->parameters()) parameter->main_grad.FillZero();
  }
}

Pass StageModel::PassOf(int chunk, int microbatch, Phase phase) const {
  return {.step = static_cast<int32_t>(step_),
          .microbatch = static_cast<int32_t>(GlobalMicrobatch(env_, microbatch)),
          .phase = phase,
          .chunk = layout_.chunks() > 1 ? chunk : -1};
}

Tensor StageModel::Forward(int chunk, int microbatch, const Tensor& input) {
  Chunk& own = chunks_[static_cast<size_t>(chunk)];
  const int skipped = env_.policies().pipeline.batches_skipped(stage_, chunk, microbatch);
  for (int i = 0; i < skipped; ++i) own.data->Next();
  ForwardState& state = own.under_way[microbatch].state;
  const StepOutput step = forward_step_(PassOf(chunk, microbatch, Phase::kForward), *own.data,
                                        *own.model, input, state);
  if (!layout_.At(stage_, chunk).post_process) return step.output;
  MicrobatchResult result = step.loss_func(step.output);
  AddInto(env_.context(), totals_.loss, result.loss);
  AddInto(env_.context(), totals_.labels, result.labels);
  state.doutput = std::move(result.doutput);
  return {};
}

Tensor StageModel::RunBackward(int chunk, int microbatch, const Tensor& doutput, bool defer) {
  Chunk& own = chunks_[static_cast<size_t>(chunk)];
  const StageSpec& spec = layout_.At(stage_, chunk);
  UnderWay& under_way = own.under_way.at(microbatch);
  if (!env_.policies().pipeline.runs_backward(stage_, chunk, microbatch)) {
    if (spec.pre_process) return {};
    return Tensor::Zeros(env_.context(), env_.config().dtype, HiddenShape(env_));
  }
  Pass pass = PassOf(chunk, microbatch, Phase::kBackward);
  pass.data = &under_way.state.data;
  if (defer) {
    pass.deferred = &under_way.weight_work;
  } else if (own.data_parallel != nullptr) {
    own.data_parallel->BeginBackward(microbatch);
  }
  Tensor dinput = own.model->Backward(pass, spec.post_process ? under_way.state.doutput : doutput,
                                      under_way.state.saved);
  under_way.state = ForwardState();  // what the weight part needs, it holds
  return dinput;
}

Tensor StageModel::Backward(int chunk, int microbatch, const Tensor& doutput) {
  Tensor dinput = RunBackward(chunk, microbatch, doutput, /*defer=*/false);
  Accumulated(chunk, microbatch);
  return dinput;
}

Tensor StageModel::BackwardInput(int chunk, int microbatch, const Tensor& doutput) {
  return RunBackward(chunk, microbatch, doutput, /*defer=*/true);
}

void StageModel::BackwardWeight(int chunk, int microbatch) {
  Chunk& own = chunks_[static_cast<size_t>(chunk)];
  if (own.data_parallel != nullptr) own.data_parallel->BeginBackward(microbatch);
  own.under_way.at(microbatch).weight_work.Run();
  Accumulated(chunk, microbatch);
}

void StageModel::Accumulated(int chunk, int microbatch) {
  chunks_[static_cast<size_t>(chunk)].under_way.erase(microbatch);
  if (on_accumulated_) on_accumulated_(chunk, microbatch);
}

int64_t StageModel::microbatches_read() const {
  int64_t most = 0;
  for (const Chunk& chunk : chunks_) most = std::max(most, chunk.data->taken());
  return most;
}

Site StageModel::SiteOf(const Operation& message) const {
  // What moves is the input, or its gradient, of the later of both chunks in the model's order.
  const bool gradient = IsGradientMessage(message.kind);
  const bool later_is_own = IsSend(message.kind) == gradient;
  const int stage = later_is_own ? stage_ : message.peer_stage;
  const int chunk = later_is_own ? message.chunk : message.peer_chunk;
  const Pass pass =
      PassOf(chunk, message.microbatch, gradient ? Phase::kBackward : Phase::kForward);
  return SiteAt(MakeSite(-1, layout_.At(stage, chunk).input_tensor), pass,
                gradient ? Quantity::kGradient : Quantity::kValue);
}

}  // namespace plumbline
