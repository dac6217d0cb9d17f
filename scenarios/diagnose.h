// Explains the first divergence: runs both programs again, keeps what all ranks hold at its site,
// and looks for the formula that fits.
//
// Source: DESIGN section 8 lists the formulas; fit_*.h have them.
#ifndef PLUMBLINE_SCENARIOS_DIAGNOSE_H_
#define PLUMBLINE_SCENARIOS_DIAGNOSE_H_

#include <optional>
#include <string>

#include "base/finding.h"
#include "base/mesh.h"
#include "scenarios/compare.h"
#include "scenarios/evidence.h"
#include "scenarios/scenario.h"

namespace plumbline {

struct Diagnosis {
  std::optional<Formula> formula;
  std::string group;      // of the formula, else of the reduction at the site: "tp{0,1}"; or empty
  std::string actual;     // of unequal replicas: what the first wrong rank holds,
  std::string reference;  // and what another does
};

// Nothing but a divergence of values, of replicas, or a NaN has a diagnosis.
Diagnosis Diagnose(const Scenario& scenario, const ScenarioInputs& inputs, const Mesh& mesh,
                   const Divergence& divergence);

// The simplest formula that fits; nothing when none does. Microbatch gradients are not tried here.
std::optional<Formula> FitFormula(const Evidence& evidence);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_DIAGNOSE_H_
