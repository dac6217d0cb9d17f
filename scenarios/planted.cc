#include "scenarios/planted.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr const char* kTp = "--tensor-model-parallel-size above 1";
constexpr const char* kDp = "--data-parallel-size above 1";

std::string NeedsTp(const RunConfig& config) { return config.parallel.tp > 1 ? "" : kTp; }

std::string NeedsDp(const RunConfig& config) { return config.parallel.dp > 1 ? "" : kDp; }

std::string NeedsSequenceParallel(const RunConfig& config) {
  return config.parallel.sequence_parallel ? "" : "--sequence-parallel";
}

std::string NeedsRowBias(const RunConfig& config) {
  return config.model.add_bias_linear ? NeedsTp(config) : "biases in linear layers";
}

std::string NeedsAverage(const RunConfig& config) {
  return config.train.calculate_per_token_loss ? "a loss per microbatch" : NeedsDp(config);
}

// Two neighbours of the same shape among the parameters.
std::string NeedsEqualNeighbours(const RunConfig& config) {
  const bool equal =
      config.model.add_bias_linear || config.model.normalization == Normalization::kLayerNorm;
  return equal ? NeedsDp(config) : "biases or --normalization LayerNorm";
}

// A call that the rank believes done.
class NoWork : public Work {
 public:
  void Wait() override {}
  bool Done() const override { return true; }
};

class BothWorks : public Work {
 public:
  BothWorks(std::shared_ptr<Work> first, std::shared_ptr<Work> second)
      : first_(std::move(first)), second_(std::move(second)) {}
  void Wait() override {
    first_->Wait();
    second_->Wait();
  }
  bool Done() const override { return first_->Done() && second_->Done(); }

 private:
  std::shared_ptr<Work> first_;
  std::shared_ptr<Work> second_;
};

// Over data-parallel ranks, in step 1.
bool IsGradientReduction(const CollectiveCall& call) {
  return call.group.name.starts_with("dp") && call.op == CollectiveOp::kAllReduce &&
         call.site.phase == Phase::kFinalize && call.site.quantity == Quantity::kMainGrad &&
         call.site.step == 1;
}

// Holds back one call and issues it after the next one of the same shape.
class SwapTwo : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

  std::shared_ptr<Work> Issue(const CollectiveCall& call) override {
    if (swapped_ || !IsGradientReduction(call)) return inner().Issue(call);
    if (held_ == nullptr) {
      held_ = std::make_unique<CollectiveCall>(call);
      return std::make_shared<NoWork>();
    }
    if (call.input.shape() != held_->input.shape()) {
      // The first pair of equal shapes is wanted: what was held goes ahead after all.
      inner().Issue(*std::exchange(held_, std::make_unique<CollectiveCall>(call)))->Wait();
      return std::make_shared<NoWork>();
    }
    swapped_ = true;
    const std::shared_ptr<Work> ahead = inner().Issue(call);
    return std::make_shared<BothWorks>(ahead, inner().Issue(*held_));
  }

 private:
  std::unique_ptr<CollectiveCall> held_;
  bool swapped_ = false;
};

class SkipOne : public CommunicatorDecorator {
 public:
  using CommunicatorDecorator::CommunicatorDecorator;

  std::shared_ptr<Work> Issue(const CollectiveCall& call) override {
    if (skipped_ || !IsGradientReduction(call)) return inner().Issue(call);
    skipped_ = true;
    return std::make_shared<NoWork>();
  }

 private:
  bool skipped_ = false;
};

// On the last rank of the world.
template <class Decorator>
void DecorateLastRank(Scenario& scenario) {
  scenario.decorate = [](Rank& rank, Communicator& inner) -> std::unique_ptr<Communicator> {
    if (rank.global_rank() != rank.world_size() - 1) {
      return std::make_unique<CommunicatorDecorator>(inner);
    }
    return std::make_unique<Decorator>(inner);
  };
}

void PlantMaskOffByOneShard(Scenario& scenario) {
  const int tp = scenario.config.parallel.tp;
  scenario.policies.first_vocab_row = [tp](const std::string& module, int tp_rank,
                                           int64_t rows_per_rank) {
    const int shard = module == "output_layer" ? (tp_rank + 1) % tp : tp_rank;
    return shard * rows_per_rank;
  };
}

std::vector<Planted> MakePlanted() {
  return {
      {"sp-norm-gradient-not-summed",
       "norm weights' gradients are left unsummed over tp ranks that each saw a part of the "
       "sequence",
       NeedsSequenceParallel,
       [](Scenario& scenario) {
         scenario.policies.sum_sequence_parallel_gradient = [](const std::string& parameter) {
           return parameter.find("layernorm") == std::string::npos;
         };
       }},
      {"row-bias-on-every-rank",
       "every tp rank adds the bias of a row-parallel layer before the sum", NeedsRowBias,
       [](Scenario& scenario) {
         scenario.policies.bias_before_reduction = [](const std::string&, int) { return true; };
       }},
      {"target-mask-off-by-one-shard",
       "the loss masks targets by the rows of the neighbour's vocabulary shard", NeedsTp,
       PlantMaskOffByOneShard},
      {"gradients-over-wrong-group", "gradients are reduced over tp instead of dp", NeedsTp,
       [](Scenario& scenario) { scenario.policies.data_parallel.group_axes = "tp"; }},
      {"gradients-summed-not-averaged", "gradients are summed over dp where an average is due",
       NeedsAverage,
       [](Scenario& scenario) {
         scenario.policies.data_parallel.reduce_op_per_microbatch = ReduceOp::kSum;
       }},
      {"gradient-reductions-swapped",
       "the last rank issues two gradient all_reduces of the same shape in swapped order",
       NeedsEqualNeighbours, DecorateLastRank<SwapTwo>},
      {"gradient-reduction-skipped", "the last rank skips its first gradient all_reduce", NeedsDp,
       DecorateLastRank<SkipOne>},
  };
}

}  // namespace

const std::vector<Planted>& PlantedMistakes() {
  static const std::vector<Planted> planted = MakePlanted();
  return planted;
}

void Plant(std::string_view name, Scenario& scenario) {
  const std::vector<Planted>& all = PlantedMistakes();
  const auto found = std::find_if(all.begin(), all.end(),
                                  [name](const Planted& planted) { return planted.name == name; });
  if (found == all.end()) {
    std::vector<std::string> names;
    for (const Planted& planted : all) names.push_back(planted.name);
    throw InvalidArgument("--plant '{}': expected one of {}", name, fmt::join(names, ", "));
  }
  const std::string lacks = found->lacks(scenario.config);
  if (!lacks.empty()) throw InvalidArgument("--plant {}: needs {}", name, lacks);
  found->plant(scenario);
}

}  // namespace plumbline
