#include "parallel/tensor/rank_env.h"

#include <numeric>

#include "base/error.h"

namespace plumbline {
namespace {

std::vector<int64_t> RowsOfRank(int64_t sequence, int parts, int part) {
  if (sequence % parts != 0) {
    throw InvalidArgument("--sequence-parallel: --seq-length {} is not divisible by tp {}",
                          sequence, parts);
  }
  std::vector<int64_t> rows(static_cast<size_t>(sequence / parts));
  std::iota(rows.begin(), rows.end(), part * (sequence / parts));
  return rows;
}

}  // namespace

RankEnv::RankEnv(const Context& context, Communicator& comm, const Mesh& mesh,
                 const RunConfig& config, const Policies& policies,
                 const ParameterSource& parameters, Probe& probe)
    : context_(context),
      comm_(comm),
      mesh_(mesh),
      config_(config),
      policies_(policies),
      parameters_(parameters),
      probe_(probe),
      global_rank_(comm.global_rank()),
      tp_(mesh.GroupOf("tp", global_rank_)),
      tp_rank_(tp_.IndexOf(global_rank_)),
      sequence_parallel_(config.parallel.sequence_parallel && tp_.size() > 1),
      hidden_rows_(RowsOfRank(config.model.seq_length, sequence_parallel_ ? tp_.size() : 1,
                              sequence_parallel_ ? tp_rank_ : 0)) {}

}  // namespace plumbline
