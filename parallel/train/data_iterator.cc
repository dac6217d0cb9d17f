#include "parallel/train/data_iterator.h"

#include <utility>

namespace plumbline {

DataIterator::DataIterator(const RankEnv& env, const BatchSource& batches, const StageSpec& stage)
    : env_(env),
      batches_(batches),
      reads_tokens_(stage.pre_process),
      reads_labels_(stage.post_process) {}

Microbatch DataIterator::Next() {
  const int64_t microbatches = env_.config().num_microbatches();
  const int64_t step = 1 + taken_ / microbatches;
  Batch batch = batches_.Get(env_.context(), step, GlobalMicrobatch(env_, taken_ % microbatches));
  ++taken_;
  if (!reads_tokens_) batch.tokens = Tensor();
  if (!reads_labels_) {
    batch.labels = Tensor();
    batch.loss_mask = Tensor();
  }
  return MakeMicrobatch(env_.context(), std::move(batch), env_.config().main_dtype(),
                        env_.config().train.packed_documents);
}

int64_t GlobalMicrobatch(const RankEnv& env, int64_t i) {
  return i * env.mesh().extent("dp") + env.mesh().CoordinateOf(env.global_rank(), "dp");
}

}  // namespace plumbline
