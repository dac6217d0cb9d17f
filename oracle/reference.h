// The reference: a GPT trained on one rank, as the papers write it.
//
// It shares nothing with the parallel program but base/. Everything that it computes on the way
// goes to a ReferenceSink under the sites of docs/sites.md, in the order listed there.
//
// Numerics: double precision; Eigen's sums.
// Errors:   InvalidArgument when a parameter or batch does not fit the configuration.
#ifndef PLUMBLINE_ORACLE_REFERENCE_H_
#define PLUMBLINE_ORACLE_REFERENCE_H_

#include "base/batch.h"
#include "base/config.h"
#include "base/init.h"
#include "base/probe.h"

namespace plumbline {

// Trains for train.steps steps from the source's parameters and records every site. The scalar is
// chosen by `dtype` (f64, or a prime field).
void RunReference(const TransformerConfig& model, const TrainConfig& train, DType dtype,
                  const ParameterSource& parameters, const BatchSource& batches,
                  ReferenceSink& sink);

}  // namespace plumbline

#endif  // PLUMBLINE_ORACLE_REFERENCE_H_
