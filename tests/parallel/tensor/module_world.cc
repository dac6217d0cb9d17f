#include "tests/parallel/tensor/module_world.h"

#include <fmt/format.h>

#include "base/compare.h"
#include "base/error.h"
#include "base/init.h"
#include "base/rng.h"
#include "parallel/comm/world.h"

namespace plumbline {

RunConfig TensorParallelConfig(int tp, bool sequence_parallel) {
  RunConfig config;
  config.model.num_attention_heads = 8;
  config.model.num_query_groups = 4;
  config.model.kv_channels = 4;
  config.model.seq_length = 8;
  config.model.max_position_embeddings = 8;
  config.model.vocab_size = 19;
  config.model.padded_vocab_size = 19;
  config.model.init_method_std = 0.3;
  config.parallel.tp = tp;
  config.parallel.sequence_parallel = sequence_parallel;
  config.train.global_batch_size = 2;
  return config;
}

std::string LayoutName(const RunConfig& config) {
  return fmt::format("tp{}{}", config.parallel.tp, config.parallel.sequence_parallel ? "sp" : "");
}

const Policies& DefaultPolicies() {
  static const Policies policies;
  return policies;
}

void OnEachRank(const RunConfig& config, const std::function<void(const RankEnv&)>& body,
                const Policies& policies) {
  const Mesh mesh(config.parallel);
  const SeededParameters parameters(config.model, config.train.seed);
  BlindProbe probe;
  World world(WorldOptions{.size = mesh.world_size()});
  const WorldResult result = world.Run([&](Rank& rank) {
    const RankEnv env(rank.context(), rank.comm(), mesh, config, policies, parameters, probe);
    body(env);
  });
  if (!result.findings.empty()) throw Internal("{}", result.findings[0].message);
  PL_CHECK(result.completed);
}

Tensor ZeroTensor(Shape shape) {
  return Tensor::Zeros(Context{}, DType::kF64, std::move(shape), MemoryCategory::kOther);
}

Tensor Numbers(Shape shape, uint64_t seed) {
  Tensor result = ZeroTensor(std::move(shape));
  const RandomStream stream = DataStream(seed, "test numbers");
  double* values = result.data<double>();
  for (int64_t i = 0; i < result.elements(); ++i) values[i] = stream.Normal(i);
  return result;
}

Tensor Indices(Shape shape) {
  Tensor result = ZeroTensor(std::move(shape));
  double* values = result.data<double>();
  for (int64_t i = 0; i < result.elements(); ++i) values[i] = static_cast<double>(i);
  return result;
}

Tensor PieceOfWhole(const Tensor& whole, const LocalPiece& piece) {
  Tensor local = ZeroTensor(piece.local_shape);
  double* values = local.data<double>();
  for (size_t i = 0; i < piece.global_index.size(); ++i) {
    if (piece.global_index[i] >= 0) values[i] = whole.data<double>()[piece.global_index[i]];
  }
  return local;
}

void PutPiece(const Tensor& local, const LocalPiece& piece, Tensor& whole) {
  const std::vector<double> values = local.ToVector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (piece.global_index[i] >= 0) whole.data<double>()[piece.global_index[i]] = values[i];
  }
}

double Deviation(const Tensor& a, const Tensor& b) { return Compare(a, b).Deviation(); }

}  // namespace plumbline
