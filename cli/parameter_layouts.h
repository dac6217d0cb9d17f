// Which elements of a model's parameters each rank of a mesh holds.
#ifndef PLUMBLINE_CLI_PARAMETER_LAYOUTS_H_
#define PLUMBLINE_CLI_PARAMETER_LAYOUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/finding.h"
#include "base/logical_tensor.h"
#include "base/mesh.h"

namespace plumbline {

// Global indices begin..last along one axis, both included; -1..-1 is one row of padding.
struct IndexRange {
  int64_t begin = 0;
  int64_t last = 0;
  bool operator==(const IndexRange&) const = default;
};

struct ParameterPiece {
  std::vector<int> ranks;                     // that hold it, ascending
  std::vector<std::vector<IndexRange>> axes;  // per dimension of the parameter, in local order
};

struct ParameterLayout {
  LogicalTensor tensor;
  std::vector<PipelinePlace> places;   // that hold it, ascending; without virtual stages no chunk
  std::vector<ParameterPiece> pieces;  // in order of their first rank
};

// Of every parameter, in the order of docs/sites.md. The parallel model is built on one rank, and
// says how it is cut; parallel/pipeline/stage_layout.h says which stages and chunks hold it.
//
// Errors: InvalidArgument when layers do not divide over stages, or a cut does not fit.
std::vector<ParameterLayout> ParameterLayouts(const RunConfig& config, const Mesh& mesh,
                                              const std::vector<std::string>& names);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_PARAMETER_LAYOUTS_H_
