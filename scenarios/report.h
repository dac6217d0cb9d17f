// A divergence as a finding: who, where, what, both values.
#ifndef PLUMBLINE_SCENARIOS_REPORT_H_
#define PLUMBLINE_SCENARIOS_REPORT_H_

#include <string>
#include <vector>

#include "base/finding.h"
#include "base/mesh.h"
#include "scenarios/compare.h"
#include "scenarios/diagnose.h"

namespace plumbline {

// `diagnosis` is null for divergences after the first.
Finding MakeFinding(const Divergence& divergence, const Mesh& mesh, const Diagnosis* diagnosis,
                    const std::string& repeat);

// "rank 3", "ranks 0,1,..,15".
std::string RanksText(const std::vector<int>& ranks);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_REPORT_H_
