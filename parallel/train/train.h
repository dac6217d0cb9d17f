// A whole training run on one rank of a parallel layout.
//
// Comm:     everything goes through rank.comm(); groups come from the mesh.
// Numerics: see docs/numerics.md. Each tagged tensor is shown to `probe` under the sites of
// docs/sites.md, with the
//           global microbatch number and its piece of the logical tensor.
// Errors:   InvalidArgument when the configuration is illegal (base/config.h, Validate).
// Source:   Megatron-LM training.py, train_step.
#ifndef PLUMBLINE_PARALLEL_TRAIN_TRAIN_H_
#define PLUMBLINE_PARALLEL_TRAIN_TRAIN_H_

#include "base/batch.h"
#include "base/config.h"
#include "base/context.h"
#include "base/init.h"
#include "base/mesh.h"
#include "base/probe.h"
#include "parallel/comm/world.h"
#include "parallel/train/policies.h"

namespace plumbline {

struct TrainInputs {
  const RunConfig& config;
  const Mesh& mesh;
  const ParameterSource& parameters;
  const BatchSource& batches;
  const Policies& policies;
  SumOrder sum_order = {};  // of the matrix products
};

// `comm` is the rank's communicator with the scenario's decorators on it.
void TrainOnRank(Rank& rank, Communicator& comm, const TrainInputs& inputs, Probe& probe);

}  // namespace plumbline

#endif  // PLUMBLINE_PARALLEL_TRAIN_TRAIN_H_
