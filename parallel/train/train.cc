#include "parallel/train/train.h"

#include <memory>
#include <utility>

#include "kernels/elementwise.h"
#include "parallel/comm/streams.h"
#include "parallel/data/data_parallel.h"
#include "parallel/data/distributed_data_parallel.h"
#include "parallel/data/finalize_gradients.h"
#include "parallel/data/fully_sharded.h"
#include "parallel/data/tied_embeddings.h"
#include "parallel/optimizer/grad_norm.h"
#include "parallel/optimizer/optimizer.h"
#include "parallel/pipeline/executor.h"
#include "parallel/pipeline/schedule_builder.h"
#include "parallel/pipeline/stage_layout.h"
#include "parallel/tensor/tap.h"
#include "parallel/train/forward_step.h"
#include "parallel/train/loss.h"
#include "parallel/train/stage_model.h"

namespace plumbline {
namespace {

Tap ScalarTap(const RankEnv& env, const char* name) {
  return Tap(-1, MakeLayout(env, {name, {}, {}}));
}

void ShowParameters(const RankEnv& env, const std::vector<Parameter*>& parameters, int64_t step,
                    Phase phase, Quantity quantity) {
  for (const Parameter* parameter : parameters) {
    const Site site = parameter->At(step, phase, quantity);
    if (quantity == Quantity::kMainGrad) {
      env.probe().Observe(site, parameter->owned_layout(), parameter->owned_grad());
    } else if (parameter->value.defined()) {
      env.probe().Observe(site, parameter->layout, parameter->value);
    } else {
      env.probe().Observe(site, parameter->owned_layout(), parameter->owned_value());
    }
  }
}

// A large pipeline's schedule is long, and the same for all ranks: those of a world, which share a
// thread, share it.
std::shared_ptr<const Schedule> SharedSchedule(const ScheduleConfig& config) {
  static thread_local std::weak_ptr<const Schedule> latest;
  std::shared_ptr<const Schedule> schedule = latest.lock();
  if (schedule == nullptr || schedule->config != config) {
    schedule = std::make_shared<const Schedule>(MakeSchedule(config));
    latest = schedule;
  }
  return schedule;
}

std::shared_ptr<const Schedule> MakeRunSchedule(const RankEnv& env) {
  std::shared_ptr<const Schedule> schedule = SharedSchedule(ScheduleConfigOf(env.config()));
  const auto& change = env.policies().pipeline.change_schedule;
  if (!change) return schedule;
  Schedule changed = *schedule;
  change(changed);
  return std::make_shared<const Schedule>(std::move(changed));
}

// Megatron overlaps messages with computation where there are virtual stages, and waits at once
// where there are none.
ExecutorOptions OptionsOf(const RankEnv& env, const Schedule& schedule) {
  return {
      .transport = schedule.config.virtual_chunks > 1 ? Transport::kEager : Transport::kRendezvous,
      .message_shape = HiddenShape(env),
      .dtype = env.config().dtype};
}

// A model chunk's data parallelism by its sharding strategy.
std::unique_ptr<DataParallelChunk> MakeDataParallel(
    const RankEnv& env, Streams& streams, const std::vector<std::vector<Parameter*>>& units,
    int chunk) {
  switch (env.config().parallel.data.sharding_strategy) {
    case ShardingStrategy::kNoShard:
    case ShardingStrategy::kOptim:
      return std::make_unique<DistributedDataParallel>(env, streams, units, chunk);
    case ShardingStrategy::kOptimGrads:
    case ShardingStrategy::kOptimGradsParams:
      break;
  }
  return std::make_unique<FullyShardedDataParallel>(env, streams, units, chunk);
}

// One rank's training state.
class Trainer {
 public:
  Trainer(const RankEnv& env, const WorldOptions& world, const BatchSource& batches)
      : env_(env),
        layout_(env.config()),
        streams_(world, env.global_rank()),
        schedule_(MakeRunSchedule(env)),
        stage_(env, batches, layout_, GptForwardStep(env)),
        data_parallel_(AttachDataParallel()),
        executor_(env.context(), env.comm(), env.GroupOf("pp"), *schedule_,
                  env.mesh().CoordinateOf(env.global_rank(), "pp"), OptionsOf(env, *schedule_)),
        tied_embeddings_(env, stage_.parameters()),
        optimizer_(env, stage_.parameters()),
        lm_loss_(ScalarTap(env, "lm_loss")),
        grad_norm_(ScalarTap(env, "grad_norm")),
        clip_coefficient_(ScalarTap(env, "clip_coefficient")) {}

  void Run() {
    ShowParameters(env_, stage_.parameters(), 0, Phase::kInit, Quantity::kParameter);
    for (int64_t step = 1; step <= env_.config().train.steps; ++step) Step(step);
    for (const auto& chunk : data_parallel_) chunk->FinishParamSync();
  }

 private:
  // By chunk; empty without gradient buffers.
  std::vector<std::unique_ptr<DataParallelChunk>> AttachDataParallel() {
    std::vector<std::unique_ptr<DataParallelChunk>> chunks;
    if (!env_.config().parallel.data.gradient_buffers) return chunks;
    for (int chunk = 0; chunk < layout_.chunks(); ++chunk) {
      chunks.push_back(MakeDataParallel(env_, streams_, stage_.UnitsOf(chunk), chunk));
      stage_.Attach(chunk, *chunks.back());
    }
    return chunks;
  }

  void Step(int64_t step) {
    stage_.BeginStep(step);
    stage_.OnAccumulated([&](int chunk, int microbatch) {
      if (ReducesEarly(env_, microbatch)) ReduceChunk(step, chunk);
      if (HoldsTiedTable(chunk)) tied_embeddings_.Accumulated(step, microbatch);
    });
    executor_.Run(stage_, [&](const Operation& message) { return stage_.SiteOf(message); });
    FinalizeStep(step);
    optimizer_.Step(step, NormAndClip(step));
    optimizer_.Show(step);
    for (const auto& chunk : data_parallel_) chunk->StartParamSync();
    ShowCounters(step);
  }

  void ReduceChunk(int64_t step, int chunk) {
    if (data_parallel_.empty()) {
      ReduceOverDataParallel(env_, step, stage_.ParametersOf(chunk));
    } else {
      data_parallel_[static_cast<size_t>(chunk)]->FinishGradSync();
    }
  }

  bool HoldsTiedTable(int chunk) const {
    for (const Parameter* parameter : stage_.ParametersOf(chunk)) {
      if (parameter->tied_embedding) return true;
    }
    return false;
  }

  void FinalizeStep(int64_t step) {
    Tensor label_count;
    if (env_.config().train.calculate_per_token_loss) {
      label_count = GlobalLabelCount(env_, step, stage_.totals().labels);
    }
    const auto reduce = [&] {
      if (!ReducesAfterLastMicrobatch(env_)) return;
      for (int chunk = 0; chunk < layout_.chunks(); ++chunk) ReduceChunk(step, chunk);
    };
    if (env_.policies().data_parallel.finalizes(step)) {
      FinalizeGradients(env_, step, stage_.parameters(), reduce, tied_embeddings_, label_count);
    }
    ShowParameters(env_, stage_.parameters(), step, Phase::kFinalize, Quantity::kMainGrad);
    // As in Megatron, nobody but the last stage knows the loss.
    if (!stage_.has_loss()) return;
    lm_loss_.ShowValue(env_, StepPass(step, Phase::kFinalize),
                       ReportedLoss(env_, step, stage_.totals().loss, label_count));
  }

  // The clip coefficient; undefined without clipping.
  Tensor NormAndClip(int64_t step) {
    const Pass pass = StepPass(step, Phase::kNorm);
    const Tensor norm = GradNorm(env_, step, stage_.parameters());
    grad_norm_.ShowValue(env_, pass, norm);
    const double clip_grad = env_.config().train.clip_grad;
    if (!(clip_grad > 0)) return {};
    Tensor coefficient = ClipCoefficient(env_.context(), norm, clip_grad);
    clip_coefficient_.ShowValue(env_, pass, coefficient);
    return coefficient;
  }

  void ShowCounters(int64_t step) {
    const auto show = [&](const char* name, int64_t value) {
      env_.probe().ObserveCounter(
          SiteAt(MakeSite(-1, name), StepPass(step, Phase::kStep), Quantity::kCounter), value);
    };
    show("optimizer_step", step);
    // Every rank goes by what it has read itself; data-parallel ranks read as much.
    show("consumed_samples", stage_.microbatches_read() * env_.mesh().extent("dp") *
                                 env_.config().train.micro_batch_size);
  }

  static Pass StepPass(int64_t step, Phase phase) {
    return {.step = static_cast<int32_t>(step), .microbatch = -1, .phase = phase};
  }

  const RankEnv& env_;
  const StageLayout layout_;
  Streams streams_;
  const std::shared_ptr<const Schedule> schedule_;
  StageModel stage_;
  std::vector<std::unique_ptr<DataParallelChunk>> data_parallel_;
  Executor executor_;
  TiedEmbeddings tied_embeddings_;
  Optimizer optimizer_;
  Tap lm_loss_;
  Tap grad_norm_;
  Tap clip_coefficient_;
};

}  // namespace

void TrainOnRank(Rank& rank, Communicator& comm, const TrainInputs& inputs, Probe& probe) {
  Validate(inputs.config);
  Context context = rank.context();
  context.sum_order = inputs.sum_order;
  const RankEnv env(context, comm, inputs.mesh, inputs.config, inputs.policies, inputs.parameters,
                    probe);
  Trainer(env, rank.options(), inputs.batches).Run();
}

}  // namespace plumbline
