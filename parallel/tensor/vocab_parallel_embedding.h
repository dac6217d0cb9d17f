// Rows of a word table that is cut over tp along the vocabulary.
//
// Shapes:   tokens i64 [B, S], table_shard [ceil(V / tp), H] -> [S, B, H] ([S/tp, B, H] with
//           `reduce_scatter` under sequence parallelism). The last ranks' tables end in padding
//           rows, which no token selects.
// Comm:     forward one all_reduce over tp, or one reduce_scatter; backward none, or one
//           all_gather of dy.
// Numerics: each row has one owner, the other ranks add zeros: exact.
// Source:   Shoeybi et al. 2019, section 3; Megatron-Core tensor_parallel/layers.py,
//           VocabParallelEmbedding.
#ifndef PLUMBLINE_PARALLEL_TENSOR_VOCAB_PARALLEL_EMBEDDING_H_
#define PLUMBLINE_PARALLEL_TENSOR_VOCAB_PARALLEL_EMBEDDING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/tensor/parameter.h"
#include "parallel/tensor/pass.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {

class VocabParallelEmbedding {
 public:
  // `reduce_scatter` takes effect under sequence parallelism: the sum leaves split along S.
  VocabParallelEmbedding(const RankEnv& env, const std::string& name, int64_t vocab_size,
                         int64_t hidden_size, bool reduce_scatter);
  VocabParallelEmbedding(const VocabParallelEmbedding&) = delete;
  VocabParallelEmbedding& operator=(const VocabParallelEmbedding&) = delete;

  Tensor Forward(const Pass& pass, const Tensor& tokens) const;
  void Backward(const Pass& pass, const Tensor& dy, const Tensor& tokens);

  bool scatters() const { return scatters_; }
  void AppendParameters(std::vector<Parameter*>& parameters) { parameters.push_back(&weight_); }
  Parameter& weight() { return weight_; }

 private:
  const RankEnv& env_;
  Site site_;
  bool scatters_;
  Parameter weight_;
  int64_t first_row_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_VOCAB_PARALLEL_EMBEDDING_H_
