#include "parallel/model/hidden_dropout.h"

#include "base/rng.h"
#include "parallel/train/policies.h"

namespace plumbline {

DropoutKey DropoutKeyAt(const RankEnv& env, const Pass& pass, double probability,
                        uint64_t site_hash) {
  DropoutKey key;
  key.probability = probability;
  key.seed = env.config().train.seed;
  key.step = pass.mask_step >= 0 ? pass.mask_step : pass.step;
  key.site_hash = site_hash;
  key.samples = pass.data->batch.samples;
  return key;
}

HiddenDropout::HiddenDropout(const RankEnv& env, std::string_view site)
    : env_(env), site_hash_(HashOfName(site)) {}

Tensor HiddenDropout::Apply(const Pass& pass, const Tensor& x) const {
  const double probability = env_.model().hidden_dropout;
  if (probability == 0) return x;
  DropoutKey key = DropoutKeyAt(env_, pass, probability, site_hash_);
  key.seed = env_.policies().hidden_dropout.seed(env_.tp_rank(), key.seed);
  std::vector<int64_t> rows = env_.hidden_rows();
  const int64_t first = rows.front();
  for (int64_t& row : rows) row = env_.policies().hidden_dropout.row(row, first);
  return Dropout(env_.context(), x, key, rows, 0, env_.model().hidden_size);
}

}  // namespace plumbline
