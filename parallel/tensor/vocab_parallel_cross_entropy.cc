#include "parallel/tensor/vocab_parallel_cross_entropy.h"

#include "parallel/sequence/regions.h"

namespace plumbline {

VocabParallelCrossEntropy::VocabParallelCrossEntropy(const RankEnv& env, const Options& options)
    : env_(env),
      site_(MakeSite(-1, options.loss_name)),
      range_{.first_class = env.policies().first_vocab_row(options.logits_name, env.tp_rank(),
                                                           options.classes_per_rank),
             .valid_classes = options.valid_classes},
      label_smoothing_(options.label_smoothing) {}

Tensor VocabParallelCrossEntropy::Forward(const Pass& pass, const Tensor& logits,
                                          const Tensor& targets, Saved& saved) const {
  const Context& context = env_.context();
  const Site site = SiteAt(site_, pass, Quantity::kValue);
  saved.logits = logits.View({targets.elements(), logits.dim(-1)});
  CrossEntropyTotals& totals = saved.totals;
  totals.max = RowMaxScore(context, saved.logits, range_);
  if (env_.tp_size() > 1) env_.comm().AllReduce(totals.max, ReduceOp::kMax, env_.tp(), site);
  totals.target = SumOverTp(env_, RowTargetLogit(context, saved.logits, targets, range_), site);
  totals.sum_exp = SumOverTp(env_, RowSumExp(context, saved.logits, totals.max, range_), site);
  if (label_smoothing_ > 0) {
    totals.logit_sum = SumOverTp(env_, RowSum(context, saved.logits, range_), site);
  }
  return CrossEntropyLoss(context, totals, range_.valid_classes, label_smoothing_);
}

Tensor VocabParallelCrossEntropy::Backward(const Tensor& dloss, const Tensor& targets,
                                           const Saved& saved) const {
  return CrossEntropyBackward(env_.context(), dloss, saved.logits, targets, saved.totals, range_,
                              label_smoothing_);
}

}  // namespace plumbline
