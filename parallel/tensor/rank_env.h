// What every module of one rank is built with: its place in the mesh and its ways out of it.
#ifndef PLUMBLINE_PARALLEL_TENSOR_RANK_ENV_H_
#define PLUMBLINE_PARALLEL_TENSOR_RANK_ENV_H_

#include <cstdint>
#include <vector>

#include "base/config.h"
#include "base/context.h"
#include "base/init.h"
#include "base/mesh.h"
#include "base/probe.h"
#include "parallel/comm/communicator.h"
#include "parallel/train/policies.h"

namespace plumbline {

// Outlives the modules, which keep a reference.
class RankEnv {
 public:
  RankEnv(const Context& context, Communicator& comm, const Mesh& mesh, const RunConfig& config,
          const Policies& policies, const ParameterSource& parameters, Probe& probe);

  const Context& context() const { return context_; }
  Communicator& comm() const { return comm_; }
  const Mesh& mesh() const { return mesh_; }
  const RunConfig& config() const { return config_; }
  const TransformerConfig& model() const { return config_.model; }
  const Policies& policies() const { return policies_; }
  const ParameterSource& parameters() const { return parameters_; }
  Probe& probe() const { return probe_; }

  int global_rank() const { return global_rank_; }
  const Group& tp() const { return tp_; }
  int tp_size() const { return tp_.size(); }
  int tp_rank() const { return tp_rank_; }
  // Whether the sequence is split over tp between the tensor-parallel regions. Off when tp is 1, as
  // in Megatron.
  bool sequence_parallel() const { return sequence_parallel_; }
  // This rank's group of a product of axes.
  const Group& GroupOf(std::string_view axes) const { return mesh_.GroupOf(axes, global_rank_); }

  // Global positions of this rank's rows of a hidden state.
  const std::vector<int64_t>& hidden_rows() const { return hidden_rows_; }

 private:
  const Context& context_;
  Communicator& comm_;
  const Mesh& mesh_;
  const RunConfig& config_;
  const Policies& policies_;
  const ParameterSource& parameters_;
  Probe& probe_;
  int global_rank_;
  const Group& tp_;
  int tp_rank_;
  bool sequence_parallel_;
  std::vector<int64_t> hidden_rows_;
};

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TENSOR_RANK_ENV_H_
