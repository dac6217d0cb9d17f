// Which heads a tensor-parallel rank works on, and the way from the output of linear_qkv to its
// queries, keys and values.
//
// linear_qkv's rows come group by group: the group's queries, its key, its value. With G query
// groups and t ranks:
//   G >= t: a rank's block of rows is G/t whole groups.
//   G < t, kReplicateKv: a rank holds the rows of its A/t query heads and the whole key and value
//     of their group; r = t/G ranks hold copies of these.
//   G < t, kGatherQkv: rows are cut evenly, whatever heads they belong to; the output is gathered,
//     and a rank takes its query heads and their group's key and value.
//
// Shapes:   qkv_shard [S, B, (A + 2G) D / t] (kReplicateKv: (A/t + 2) D) -> query [S, B, A/t, D],
//           key and value [S, B, max(1, G/t), D].
// Comm:     none; with kGatherQkv and G < t one all_gather over tp forward and one reduce_scatter
//           backward, both along the last dimension.
// Errors:   InvalidArgument when heads, groups or rows do not divide.
// Source:   Megatron-Core transformer/attention.py, SelfAttention.get_query_key_value_tensors.
#ifndef PLUMBLINE_PARALLEL_TENSOR_QKV_LAYOUT_H_
#define PLUMBLINE_PARALLEL_TENSOR_QKV_LAYOUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/logical_tensor.h"
#include "parallel/tensor/parameter.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

struct QueryKeyValue {
  Tensor query;
  Tensor key;
  Tensor value;
};

class QkvLayout {
 public:
  explicit QkvLayout(const RankEnv& env);

  int64_t heads() const { return heads_; }
  int64_t groups() const { return groups_; }
  int64_t first_head() const { return first_head_; }
  // Ranks that work with the same key and value.
  int replicas() const { return replicas_; }

  // Rows of linear_qkv; heads of queries and of keys along `axis`.
  CutAlong RowCut() const;
  CutAlong QueryCut() const { return BlockCut(); }
  CutAlong KeyCut() const;
  // Whether copies of linear_qkv's key and value columns exist, so that their gradients are terms.
  bool replicates_rows() const { return replicas_ > 1 && !gathers_; }
  // The copied rows of a parameter of linear_qkv; none unless replicates_rows().
  std::optional<ReplicatedRows> CopiedRows() const;

  // `site` is that of the gathered tensor: linear_qkv's value, or its gradient.
  QueryKeyValue Split(const Tensor& qkv, const Site& site) const;
  // The transposed map, for gradients.
  Tensor Merge(const QueryKeyValue& gradients, const Site& site) const;

 private:
  Tensor GatherGroup(const Tensor& qkv, const Site& site) const;
  Tensor ScatterGroup(const Tensor& group, const Site& site) const;

  const RankEnv& env_;
  int64_t head_size_;
  int64_t heads_per_group_;  // of the model
  int64_t heads_;
  int64_t groups_;
  int64_t first_head_;
  int replicas_;
  bool gathers_;
  // Of what is split: how many query heads a group has there, and where this rank's begin.
  int64_t held_heads_per_group_;
  int64_t first_held_head_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_QKV_LAYOUT_H_
