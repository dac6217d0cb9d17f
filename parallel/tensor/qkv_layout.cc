#include "parallel/tensor/qkv_layout.h"

#include <numeric>
#include <utility>

#include "base/error.h"

namespace plumbline {
namespace {

void CheckDivides(const TransformerConfig& model, const RankEnv& env) {
  const int64_t tp = env.tp_size();
  const int64_t groups = model.num_query_groups;
  if (model.num_attention_heads % tp != 0) {
    throw InvalidArgument("--num-attention-heads {} is not divisible by tp {}",
                          model.num_attention_heads, tp);
  }
  if (groups % tp != 0 && tp % groups != 0) {
    throw InvalidArgument("--num-query-groups {} is neither a multiple nor a divisor of tp {}",
                          groups, tp);
  }
}

void AppendRange(std::vector<int64_t>& rows, int64_t begin, int64_t count) {
  for (int64_t i = 0; i < count; ++i) rows.push_back(begin + i);
}

// A view of [S, B, groups * (heads + 2) * D] by group and head.
Tensor ByHead(const Tensor& qkv, int64_t groups, int64_t head_size) {
  return qkv.View({qkv.dim(0), qkv.dim(1), groups, -1, head_size});
}

// Group-wise heads [S, B, G, n, D] -> [S, B, G * n, D].
Tensor Flat(const Context& context, const Tensor& x) {
  return x.Contiguous(context).View({x.dim(0), x.dim(1), x.dim(2) * x.dim(3), x.dim(4)});
}

}  // namespace

QkvLayout::QkvLayout(const RankEnv& env) : env_(env) {
  const TransformerConfig& model = env.model();
  CheckDivides(model, env);
  const int tp = env.tp_size();
  head_size_ = model.kv_channels;
  heads_per_group_ = model.heads_per_group();
  heads_ = model.num_attention_heads / tp;
  first_head_ = env.tp_rank() * heads_;
  replicas_ = model.num_query_groups < tp ? tp / static_cast<int>(model.num_query_groups) : 1;
  groups_ = replicas_ > 1 ? 1 : model.num_query_groups / tp;
  gathers_ = replicas_ > 1 && env.config().parallel.gqa_policy == GqaPolicy::kGatherQkv;
  if (gathers_ && model.qkv_size() % tp != 0) {
    throw InvalidArgument("linear_qkv's {} rows are not divisible by tp {}", model.qkv_size(), tp);
  }
  held_heads_per_group_ = gathers_ ? heads_per_group_ : heads_ / groups_;
  first_held_head_ = gathers_ ? (env.tp_rank() % replicas_) * heads_ : 0;
}

CutAlong QkvLayout::RowCut() const {
  if (!replicates_rows()) return BlockCut();
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(env_.tp_size()));
  for (int rank = 0; rank < env_.tp_size(); ++rank) {
    const int64_t group_row = rank / replicas_ * (heads_per_group_ + 2) * head_size_;
    AppendRange(rows[rank], group_row + rank % replicas_ * heads_ * head_size_,
                heads_ * head_size_);
    AppendRange(rows[rank], group_row + heads_per_group_ * head_size_, 2 * head_size_);
  }
  return [rows](int64_t axis) { return Sharded("tp", {ShardStep::Rows(axis, rows)}); };
}

CutAlong QkvLayout::KeyCut() const {
  if (replicas_ == 1) return BlockCut();
  std::vector<std::vector<int64_t>> groups(static_cast<size_t>(env_.tp_size()));
  for (int rank = 0; rank < env_.tp_size(); ++rank) groups[rank] = {rank / replicas_};
  return [groups](int64_t axis) { return Sharded("tp", {ShardStep::Rows(axis, groups)}); };
}

std::optional<ReplicatedRows> QkvLayout::CopiedRows() const {
  if (!replicates_rows()) return std::nullopt;
  ReplicatedRows copied;
  copied.first_row = heads_ * head_size_;
  copied.group.name = "tp-kv";
  const int first = env_.tp_rank() / replicas_ * replicas_;
  for (int i = 0; i < replicas_; ++i) {
    copied.group.members.push_back(env_.tp().members[first + i]);
  }
  copied.group.hash = HashOfMembers(copied.group.members);
  return copied;
}

QueryKeyValue QkvLayout::Split(const Tensor& qkv, const Site& site) const {
  const Context& context = env_.context();
  const Tensor by_head = ByHead(gathers_ ? GatherGroup(qkv, site) : qkv, groups_, head_size_);
  const int64_t own = heads_ / groups_;
  const int64_t held = held_heads_per_group_;
  return {Flat(context, by_head.Slice(3, first_held_head_, first_held_head_ + own)),
          Flat(context, by_head.Slice(3, held, held + 1)),
          Flat(context, by_head.Slice(3, held + 1, held + 2))};
}

Tensor QkvLayout::Merge(const QueryKeyValue& gradients, const Site& site) const {
  const Tensor& query = gradients.query;
  const int64_t own = heads_ / groups_;
  const int64_t held = held_heads_per_group_;
  const Shape shape = {query.dim(0), query.dim(1), groups_, held + 2, head_size_};
  // Other ranks' query heads get no gradient from here.
  Tensor by_head = own == held ? Tensor::Empty(env_.context(), query.dtype(), shape)
                               : Tensor::Zeros(env_.context(), query.dtype(), shape);
  const auto put = [&](const Tensor& x, int64_t first, int64_t count) {
    by_head.Slice(3, first, first + count)
        .CopyFrom(x.View({shape[0], shape[1], groups_, count, head_size_}));
  };
  put(query, first_held_head_, own);
  put(gradients.key, held, 1);
  put(gradients.value, held + 1, 1);
  const Tensor flat = by_head.View({shape[0], shape[1], -1});
  return gathers_ ? ScatterGroup(flat, site) : flat;
}

// All ranks' columns [S, B, C] -> the columns of this rank's group [S, B, r C]. A group's columns
// are those of r whole ranks.
Tensor QkvLayout::GatherGroup(const Tensor& qkv, const Site& site) const {
  const int64_t first = env_.tp_rank() / replicas_ * replicas_;
  const Tensor all = env_.comm().AllGather(env_.context(), qkv, env_.tp(), site);
  return all.View({env_.tp_size(), qkv.dim(0), qkv.dim(1), qkv.dim(2)})
      .Slice(0, first, first + replicas_)
      .Transpose(0, 1)
      .Transpose(1, 2)
      .Contiguous(env_.context())
      .View({qkv.dim(0), qkv.dim(1), -1});
}

Tensor QkvLayout::ScatterGroup(const Tensor& group, const Site& site) const {
  const int64_t first = env_.tp_rank() / replicas_ * replicas_;
  const Shape by_rank = {group.dim(0), group.dim(1), replicas_, group.dim(2) / replicas_};
  Tensor all = Tensor::Zeros(env_.context(), group.dtype(),
                             {env_.tp_size(), by_rank[0], by_rank[1], by_rank[3]});
  all.Slice(0, first, first + replicas_)
      .Transpose(0, 1)
      .Transpose(1, 2)
      .CopyFrom(group.View(by_rank));
  return env_.comm().ReduceScatter(env_.context(),
                                   all.View({env_.tp_size() * by_rank[0], by_rank[1], by_rank[3]}),
                                   ReduceOp::kSum, env_.tp(), site);
}

}  // namespace plumbline
