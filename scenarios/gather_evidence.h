// Collects the evidence about one divergence from a second run of both programs.
#ifndef PLUMBLINE_SCENARIOS_GATHER_EVIDENCE_H_
#define PLUMBLINE_SCENARIOS_GATHER_EVIDENCE_H_

#include <vector>

#include "base/mesh.h"
#include "scenarios/capture.h"
#include "scenarios/compare.h"
#include "scenarios/evidence.h"
#include "scenarios/reference_trace.h"
#include "scenarios/scenario.h"

namespace plumbline {

// Both programs' second run.
struct SecondRun {
  ReferenceTrace reference;             // of the divergence's step and the one before
  std::vector<CapturedTensor> tensors;  // at the divergence's site
  std::vector<CapturedCall> calls;
};

void RunAgain(const Scenario& scenario, const ScenarioInputs& inputs, const Mesh& mesh,
              const Divergence& divergence, SecondRun& run);

// The reference must hold the divergence's tensor.
Evidence GatherEvidence(const RunConfig& config, const ScenarioInputs& inputs, const Mesh& mesh,
                        const Divergence& divergence, SecondRun& run);

// Sums of squares of the step's gradients that a norm may count wrongly: of those that tp ranks
// replicate, and of the others.
std::vector<NamedTensor> SquaresOfGradients(const Site& site, const ReferenceTrace& reference);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_GATHER_EVIDENCE_H_
