#include "parallel/pipeline/stage_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.h"

namespace plumbline {
namespace {

constexpr std::string_view kLayoutFlag = "--pipeline-model-parallel-layout";
constexpr std::string_view kFirstFlag = "--decoder-first-pipeline-num-layers";
constexpr std::string_view kLastFlag = "--decoder-last-pipeline-num-layers";
constexpr std::string_view kChunksFlag = "--num-virtual-stages-per-pipeline-rank";

// Writes repetitions out: "E(t|)*2L" becomes "Et|t|L".
class LayoutText {
 public:
  explicit LayoutText(std::string_view text) : text_(text) {}

  std::string Expand() {
    std::string whole = Items();
    if (at_ < text_.size()) Refuse("a ')' without its '('");
    return whole;
  }

 private:
  [[noreturn]] void Refuse(const std::string& why) const {
    throw InvalidArgument("{} \"{}\", character {}: {}", kLayoutFlag, text_, at_ + 1, why);
  }

  void SkipBlanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == ',')) ++at_;
  }

  std::string Items() {
    std::string items;
    for (SkipBlanks(); at_ < text_.size() && text_[at_] != ')'; SkipBlanks()) {
      const std::string item = Item();
      const int64_t times = Times();
      if (times * static_cast<int64_t>(item.size()) + static_cast<int64_t>(items.size()) > kMost) {
        Refuse(fmt::format("more than {} layers and stages", kMost));
      }
      for (int64_t i = 0; i < times; ++i) items += item;
    }
    return items;
  }

  std::string Item() {
    const char c = text_[at_];
    if (c == '(') {
      ++at_;
      std::string group = Items();
      if (at_ == text_.size()) Refuse("a '(' without its ')'");
      ++at_;
      return group;
    }
    if (c == 'm') Refuse("m (further prediction layers) is not modelled");
    if (std::string_view("EtL|").find(c) == std::string_view::npos) {
      Refuse("expected E (embedding), t (layer), L (loss), |, ( or )");
    }
    ++at_;
    return std::string(1, c);
  }

  int64_t Times() {
    SkipBlanks();
    if (at_ == text_.size() || text_[at_] != '*') return 1;
    ++at_;
    const size_t begin = at_;
    int64_t times = 0;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && times <= kMost) {
      times = times * 10 + (text_[at_++] - '0');
    }
    if (at_ == begin || times < 1 || times > kMost) {
      Refuse(fmt::format("expected a number from 1 to {} after *", kMost));
    }
    return times;
  }

  static constexpr int64_t kMost = 1 << 20;
  std::string_view text_;
  size_t at_ = 0;
};

std::vector<StageSpec> SpecsOfLayout(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const std::string text = LayoutText(parallel.pipeline_layout).Expand();
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument("{} \"{}\": {}", kLayoutFlag, parallel.pipeline_layout, why);
  };
  if (parallel.virtual_stages > 1 || parallel.decoder_first_pipeline_num_layers > 0 ||
      parallel.decoder_last_pipeline_num_layers > 0) {
    refuse(fmt::format("it says all, so that {}, {} and {} cannot be given beside it", kChunksFlag,
                       kFirstFlag, kLastFlag));
  }
  if (std::count(text.begin(), text.end(), 'E') != 1 || text.front() != 'E') {
    refuse("must have one E, at its start");
  }
  if (std::count(text.begin(), text.end(), 'L') != 1 || text.back() != 'L') {
    refuse("must have one L, at its end");
  }
  const int64_t layers = std::count(text.begin(), text.end(), 't');
  if (layers != config.model.num_layers) {
    refuse(fmt::format("has {} layers; --num-layers is {}", layers, config.model.num_layers));
  }
  const int64_t entries = std::count(text.begin(), text.end(), '|') + 1;
  if (entries % parallel.pp != 0) {
    refuse(fmt::format("has {} stages, which is no multiple of --pipeline-model-parallel-size {}",
                       entries, parallel.pp));
  }
  std::vector<StageSpec> specs(1);
  int32_t layer = 0;
  for (const char c : text) {
    if (c == '|') specs.emplace_back();
    if (c == 't') specs.back().layers.push_back(layer++);
  }
  return specs;
}

// Layers of each stage, all chunks together.
std::vector<int64_t> LayersOfStages(const RunConfig& config) {
  const ParallelConfig& parallel = config.parallel;
  const int64_t first = parallel.decoder_first_pipeline_num_layers;
  const int64_t last = parallel.decoder_last_pipeline_num_layers;
  if ((first > 0 || last > 0) && parallel.pp < 2) {
    throw InvalidArgument("{} needs --pipeline-model-parallel-size of at least 2; it is {}",
                          first > 0 ? kFirstFlag : kLastFlag, parallel.pp);
  }
  const int64_t others = config.model.num_layers - first - last;
  const int64_t stages = parallel.pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const bool fits = stages == 0 ? others == 0 : others >= stages && others % stages == 0;
  if (!fits) {
    if (first == 0 && last == 0) {
      throw InvalidArgument(
          "--num-layers {} must be a multiple of --pipeline-model-parallel-size {}, or be split by "
          "{}, {} or {}",
          config.model.num_layers, parallel.pp, kFirstFlag, kLastFlag, kLayoutFlag);
    }
    throw InvalidArgument(
        "--num-layers {} less {} {} and {} {} leaves {} layers, which do not divide evenly among "
        "the other {} stages",
        config.model.num_layers, kFirstFlag, first, kLastFlag, last, others, stages);
  }
  std::vector<int64_t> layers(static_cast<size_t>(parallel.pp), stages > 0 ? others / stages : 0);
  if (first > 0) layers.front() = first;
  if (last > 0) layers.back() = last;
  return layers;
}

std::vector<StageSpec> SpecsOfSplit(const RunConfig& config) {
  const int chunks = config.parallel.virtual_stages;
  const std::vector<int64_t> layers = LayersOfStages(config);
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    if (layers[stage] % chunks == 0) continue;
    throw InvalidArgument("stage {} has {} layers, which is no multiple of {} {}", stage,
                          layers[stage], kChunksFlag, chunks);
  }
  std::vector<StageSpec> specs;
  int32_t layer = 0;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (const int64_t of_stage : layers) {
      StageSpec& spec = specs.emplace_back();
      for (int64_t i = 0; i < of_stage / chunks; ++i) spec.layers.push_back(layer++);
    }
  }
  return specs;
}

// Who receives what from whom.
void JoinUp(int stages, std::vector<StageSpec>& specs) {
  std::string output;
  std::set<size_t> shown_on;  // stages that have shown `output`
  for (size_t i = 0; i < specs.size(); ++i) {
    StageSpec& spec = specs[i];
    const size_t stage = i % static_cast<size_t>(stages);
    spec.pre_process = i == 0;
    spec.post_process = i + 1 == specs.size();
    spec.input_tensor = output;
    spec.shows_input = shown_on.insert(stage).second;
    if (spec.pre_process) output = "embedding";
    if (!spec.layers.empty()) {
      output = fmt::format("decoder.layers.{}.mlp_bda", spec.layers.back());
      shown_on = {stage};
    }
  }
}

// "decoder.layers.12.mlp" is of layer 12; -1: of none.
int32_t LayerOf(std::string_view tensor) {
  constexpr std::string_view kPrefix = "decoder.layers.";
  if (!tensor.starts_with(kPrefix)) return -1;
  int32_t layer = -1;
  for (const char c : tensor.substr(kPrefix.size())) {
    if (c < '0' || c > '9' || layer > (1 << 20)) break;
    layer = std::max(layer, 0) * 10 + (c - '0');
  }
  return layer;
}

bool IsOfHead(std::string_view tensor) {
  return tensor.starts_with("decoder.final_layernorm") || tensor.starts_with("output_layer") ||
         tensor == "loss_per_token" || tensor == "loss" || tensor == "lm_loss";
}

}  // namespace

StageLayout::StageLayout(const RunConfig& config)
    : stages_(config.parallel.pp),
      tied_(config.model.tied_embeddings),
      specs_(config.parallel.pipeline_layout.empty() ? SpecsOfSplit(config)
                                                     : SpecsOfLayout(config)) {
  JoinUp(stages_, specs_);
}

const StageSpec& StageLayout::At(int stage, int chunk) const {
  PL_CHECK(stage >= 0);
  PL_CHECK(stage < stages_);
  PL_CHECK(chunk >= 0);
  PL_CHECK(chunk < chunks());
  return specs_[static_cast<size_t>(chunk * stages_ + stage)];
}

std::vector<PipelinePlace> StageLayout::PlacesOf(std::string_view tensor) const {
  const int32_t layer = LayerOf(tensor);
  const bool embedding = tensor.starts_with("embedding");
  const bool shared = tied_ && tensor == "embedding.word_embeddings.weight";
  std::vector<PipelinePlace> places;
  if (layer < 0 && !embedding && !IsOfHead(tensor)) {  // norms, counters
    for (int stage = 0; stage < stages_; ++stage) places.push_back({stage, -1});
    return places;
  }
  for (size_t i = 0; i < specs_.size(); ++i) {
    const StageSpec& spec = specs_[i];
    const bool holds = (spec.input_tensor == tensor && !tensor.empty()) ||
                       (layer >= 0 && std::find(spec.layers.begin(), spec.layers.end(), layer) !=
                                          spec.layers.end()) ||
                       (embedding && spec.pre_process) ||
                       ((IsOfHead(tensor) || shared) && spec.post_process);
    if (holds) places.push_back({static_cast<int>(i) % stages_, static_cast<int>(i) / stages_});
  }
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<int> StageLayout::StagesOf(std::string_view tensor) const {
  std::set<int> stages;
  for (const PipelinePlace& place : PlacesOf(tensor)) stages.insert(place.stage);
  return {stages.begin(), stages.end()};
}

ScheduleConfig ScheduleConfigOf(const RunConfig& config) {
  const StageLayout layout(config);
  ScheduleConfig schedule;
  schedule.pp = config.parallel.pp;
  schedule.virtual_chunks = layout.chunks();
  schedule.microbatches = static_cast<int>(config.num_microbatches());
  schedule.microbatch_group_size = config.parallel.microbatch_group_size;
  schedule.kind = config.parallel.schedule.empty() ? DefaultScheduleKind(schedule.virtual_chunks)
                                                   : ParseScheduleKind(config.parallel.schedule);
  Validate(schedule);
  return schedule;
}

}  // namespace plumbline
