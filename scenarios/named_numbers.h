// The factors by which a tensor may be off, and what they count.
#ifndef PLUMBLINE_SCENARIOS_NAMED_NUMBERS_H_
#define PLUMBLINE_SCENARIOS_NAMED_NUMBERS_H_

#include <cstdint>
#include <vector>

#include "base/batch.h"
#include "base/config.h"
#include "base/mesh.h"
#include "base/site.h"
#include "base/tensor.h"
#include "scenarios/evidence.h"

namespace plumbline {

// Sizes of the mesh, microbatches and labels (where they count: not in a module's forward), with
// inverses, signs and neighbours; coefficients of the optimizer; powers of two. A value that is
// several of them is there under each name, those that explain most first.
std::vector<NamedNumber> NumbersOf(const RunConfig& config, const BatchSource& batches,
                                   const Mesh& mesh, const Site& site);

// Labels that count in one microbatch.
int64_t LabelsOf(const BatchSource& batches, int64_t step, int64_t microbatch);

// Whether this is a parameter as the step found it.
bool IsStartingParameter(const Site& site, int64_t step);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_NAMED_NUMBERS_H_
