// A divergence as a finding: who, where, what, both values.
#ifndef PLUMBLINE_SCENARIOS_REPORT_H_
#define PLUMBLINE_SCENARIOS_REPORT_H_

#include <string>
#include <vector>

#include "base/finding.h"
#include "base/mesh.h"
#include "parallel/pipeline/stage_layout.h"
#include "scenarios/compare.h"
#include "scenarios/diagnose.h"

namespace plumbline {

// `diagnosis` is null for divergences after the first.
Finding MakeFinding(const Divergence& divergence, const Mesh& mesh, const StageLayout& stages,
                    const Diagnosis* diagnosis, const std::string& repeat);

// Where in the pipeline ranks show a tensor, ascending; nowhere without a pipeline.
std::vector<PipelinePlace> PlacesOf(const StageLayout& stages, const Mesh& mesh,
                                    const std::string& tensor, const std::vector<int>& ranks);
// "stage 2", "stages 0,3", "stage 0 chunk 1, stage 1 chunk 0".
std::string PlacesText(const std::vector<PipelinePlace>& places);

// "rank 3", "ranks 0,1,..,15".
std::string RanksText(const std::vector<int>& ranks);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_REPORT_H_
