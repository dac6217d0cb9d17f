#include "parallel/train/train.h"

#include <utility>

#include "kernels/elementwise.h"
#include "parallel/data/finalize_gradients.h"
#include "parallel/model/gpt_model.h"
#include "parallel/optimizer/grad_norm.h"
#include "parallel/optimizer/optimizer.h"
#include "parallel/tensor/tap.h"
#include "parallel/train/loss.h"

namespace plumbline {
namespace {

Tap ScalarTap(const RankEnv& env, const char* name) {
  return Tap(-1, MakeLayout(env, {name, {}, {}}));
}

void ShowParameters(const RankEnv& env, const std::vector<Parameter*>& parameters, int64_t step,
                    Phase phase, Quantity quantity) {
  for (const Parameter* parameter : parameters) {
    env.probe().Observe(parameter->At(step, phase, quantity), parameter->layout,
                        quantity == Quantity::kMainGrad ? parameter->main_grad : parameter->value);
  }
}

// One rank's training state.
class Trainer {
 public:
  Trainer(const RankEnv& env, const BatchSource& batches)
      : env_(env),
        batches_(batches),
        model_(env, WholeModel(env.model())),
        optimizer_(env, model_.parameters()),
        loss_(ScalarTap(env, "loss")),
        lm_loss_(ScalarTap(env, "lm_loss")),
        grad_norm_(ScalarTap(env, "grad_norm")),
        clip_coefficient_(ScalarTap(env, "clip_coefficient")) {}

  void Run() {
    ShowParameters(env_, model_.parameters(), 0, Phase::kInit, Quantity::kParameter);
    for (int64_t step = 1; step <= env_.config().train.steps; ++step) Step(step);
  }

 private:
  // What the microbatches of one step add up to on this rank.
  struct Totals {
    Tensor loss;
    Tensor labels;
  };

  void Step(int64_t step) {
    for (Parameter* parameter : model_.parameters()) parameter->main_grad.FillZero();
    Totals totals = {Zero(), Zero()};
    for (int64_t i = 0; i < env_.config().num_microbatches(); ++i) {
      ForwardBackward(step, GlobalMicrobatch(i), totals);
    }
    FinalizeStep(step, std::move(totals));
    optimizer_.Step(step, NormAndClip(step));
    optimizer_.Show(step);
    ShowCounters(step);
  }

  void ForwardBackward(int64_t step, int64_t number, Totals& totals) {
    const Context& context = env_.context();
    const Microbatch microbatch =
        MakeMicrobatch(context, batches_.Get(context, step, number), env_.config().dtype,
                       env_.config().train.packed_documents);
    Pass pass{.step = static_cast<int32_t>(step),
              .microbatch = static_cast<int32_t>(number),
              .phase = Phase::kForward,
              .data = &microbatch};
    GptModel::Saved saved;
    const Tensor losses = model_.Forward(pass, {}, saved);
    const Tensor loss = MicrobatchLoss(env_, microbatch, losses);
    loss_.ShowValue(env_, pass, loss);
    AddInto(context, totals.loss, loss);
    AddInto(context, totals.labels, Sum(context, microbatch.loss_mask));

    pass.phase = Phase::kBackward;
    model_.Backward(pass, MicrobatchLossGradient(env_, microbatch), saved);
  }

  void FinalizeStep(int64_t step, Totals totals) {
    Tensor label_count;
    if (env_.config().train.calculate_per_token_loss) {
      label_count = GlobalLabelCount(env_, step, std::move(totals.labels));
    }
    FinalizeGradients(env_, step, model_.parameters(), label_count);
    ShowParameters(env_, model_.parameters(), step, Phase::kFinalize, Quantity::kMainGrad);
    lm_loss_.ShowValue(env_, StepPass(step, Phase::kFinalize),
                       ReportedLoss(env_, step, std::move(totals.loss), label_count));
  }

  // The clip coefficient; undefined without clipping.
  Tensor NormAndClip(int64_t step) {
    const Pass pass = StepPass(step, Phase::kNorm);
    const Tensor norm = GradNorm(env_, step, model_.parameters());
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
    show("consumed_samples", step * env_.config().train.global_batch_size);
  }

  // This rank's i-th microbatch, counted over all data-parallel ranks.
  int64_t GlobalMicrobatch(int64_t i) const {
    return i * env_.mesh().extent("dp") + env_.mesh().CoordinateOf(env_.global_rank(), "dp");
  }
  static Pass StepPass(int64_t step, Phase phase) {
    return {.step = static_cast<int32_t>(step), .microbatch = -1, .phase = phase};
  }
  Tensor Zero() const {
    return Tensor::Zeros(env_.context(), env_.config().dtype, {}, MemoryCategory::kOther);
  }

  const RankEnv& env_;
  const BatchSource& batches_;
  GptModel model_;
  Optimizer optimizer_;
  Tap loss_;
  Tap lm_loss_;
  Tap grad_norm_;
  Tap clip_coefficient_;
};

}  // namespace

void TrainOnRank(Rank& rank, Communicator& comm, const TrainInputs& inputs, Probe& probe) {
  Validate(inputs.config);
  const RankEnv env(rank.context(), comm, inputs.mesh, inputs.config, inputs.policies,
                    inputs.parameters, probe);
  Trainer(env, inputs.batches).Run();
}

}  // namespace plumbline
