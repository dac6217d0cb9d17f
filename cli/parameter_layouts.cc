#include "cli/parameter_layouts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.h"
#include "cli/arguments.h"
#include "parallel/model/gpt_model.h"
#include "parallel/pipeline/stage_layout.h"
#include "parallel/tensor/rank_env.h"

namespace plumbline {
namespace {

// A model that is only looked at needs no values, no communication and no audience.
class NoValues : public ParameterSource {
 public:
  void Fill(const std::string&, const Shape&, const std::vector<int64_t>&,
            Tensor& local) const override {
    local.FillZero();
  }
};

class NoCommunicator : public Communicator {
 public:
  std::shared_ptr<Work> Issue(const CollectiveCall&) override {
    throw Internal("building a model communicates");
  }
  int global_rank() const override { return 0; }
};

class NoProbe : public Probe {
 public:
  void Observe(const Site&, const ObservedLayout&, const Tensor&) override {}
  void ObserveCounter(const Site&, int64_t) override {}
};

struct NamedLayout {
  LogicalTensor tensor;
  int32_t layer = -1;
};

std::vector<NamedLayout> BuildModel(const RunConfig& config, const Mesh& mesh) {
  const Context context;
  NoCommunicator comm;
  const Policies policies;
  const NoValues values;
  NoProbe probe;
  const RankEnv env(context, comm, mesh, config, policies, values, probe);
  const GptModel model(env, WholeModel(config.model));
  std::vector<NamedLayout> layouts;
  for (const Parameter* parameter : model.parameters()) {
    layouts.push_back({parameter->layout.tensor, parameter->layer});
  }
  return layouts;
}

std::vector<IndexRange> Ranges(const std::vector<int64_t>& indices) {
  std::vector<IndexRange> ranges;
  for (const int64_t index : indices) {
    if (!ranges.empty() && index >= 0 && index == ranges.back().last + 1 &&
        ranges.back().begin >= 0) {
      ranges.back().last = index;
    } else {
      ranges.push_back({index, index});
    }
  }
  return ranges;
}

// The piece as one list of global indices per dimension. Every cut of a parameter is along single
// dimensions, so that the piece is the product of its lists; a list is read off the elements whose
// other local indices are 0. Rows of padding have -1.
std::vector<std::vector<IndexRange>> AxesOf(const LocalPiece& piece, const LogicalTensor& tensor) {
  const size_t dims = tensor.global_shape.size();
  PL_CHECK(piece.local_shape.size() == dims);
  std::vector<int64_t> local_stride(dims, 1);
  std::vector<int64_t> global_stride(dims, 1);
  for (size_t d = dims; d-- > 1;) {
    local_stride[d - 1] = local_stride[d] * piece.local_shape[d];
    global_stride[d - 1] = global_stride[d] * tensor.global_shape[d];
  }
  std::vector<std::vector<IndexRange>> axes;
  for (size_t d = 0; d < dims; ++d) {
    std::vector<int64_t> indices;
    for (int64_t i = 0; i < piece.local_shape[d]; ++i) {
      const int64_t global = piece.global_index[static_cast<size_t>(i * local_stride[d])];
      indices.push_back(global < 0 ? -1 : global / global_stride[d] % tensor.global_shape[d]);
    }
    axes.push_back(Ranges(indices));
  }
  return axes;
}

std::vector<ParameterPiece> PiecesOf(const LogicalTensor& tensor, const std::vector<int>& stages,
                                     const Mesh& mesh) {
  std::vector<ParameterPiece> pieces;
  // A piece is a function of the coordinates along the axes that cut, here by tp alone.
  std::map<int, size_t> piece_of_tp_rank;
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const int stage = mesh.CoordinateOf(rank, "pp");
    if (std::find(stages.begin(), stages.end(), stage) == stages.end()) continue;
    const int tp_rank = mesh.CoordinateOf(rank, "tp");
    const auto known = piece_of_tp_rank.find(tp_rank);
    if (known != piece_of_tp_rank.end()) {
      pieces[known->second].ranks.push_back(rank);
      continue;
    }
    std::vector<std::vector<IndexRange>> axes = AxesOf(PieceOf(tensor, mesh, rank), tensor);
    const auto same = std::find_if(pieces.begin(), pieces.end(),
                                   [&](const ParameterPiece& piece) { return piece.axes == axes; });
    piece_of_tp_rank[tp_rank] = static_cast<size_t>(same - pieces.begin());
    if (same != pieces.end()) {
      same->ranks.push_back(rank);
    } else {
      pieces.push_back({{rank}, std::move(axes)});
    }
  }
  return pieces;
}

void CheckNames(const std::vector<NamedLayout>& layouts, const std::vector<std::string>& names) {
  std::vector<std::string> known = {"all"};
  for (const NamedLayout& layout : layouts) known.push_back(layout.tensor.name);
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const std::string nearest = NearestWord(name, known);
    throw InvalidArgument(
        "--param {}: the model has no such parameter; {}", name,
        nearest.empty() ? "'--param all' shows every one" : "did you mean '" + nearest + "'?");
  }
}

}  // namespace

std::vector<ParameterLayout> ParameterLayouts(const RunConfig& config, const Mesh& mesh,
                                              const std::vector<std::string>& names) {
  const StageLayout stage_layout(config);
  const std::vector<NamedLayout> all = BuildModel(config, mesh);
  CheckNames(all, names);
  const bool every = std::find(names.begin(), names.end(), "all") != names.end();
  std::vector<ParameterLayout> layouts;
  for (const NamedLayout& parameter : all) {
    const bool wanted =
        every || std::find(names.begin(), names.end(), parameter.tensor.name) != names.end();
    if (!wanted) continue;
    const std::vector<int> stages = stage_layout.StagesOf(parameter.tensor.name);
    std::vector<PipelinePlace> places = stage_layout.PlacesOf(parameter.tensor.name);
    for (PipelinePlace& place : places) {
      if (stage_layout.chunks() == 1) place.chunk = -1;
    }
    layouts.push_back(
        {parameter.tensor, std::move(places), PiecesOf(parameter.tensor, stages, mesh)});
  }
  return layouts;
}

}  // namespace plumbline
