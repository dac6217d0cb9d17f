#include "cli/verify_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <vector>

#include "parallel/data/buffer_layout.h"
#include "parallel/pipeline/stage_layout.h"
#include "scenarios/report.h"

namespace plumbline {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kIndent = 10;

std::string Line(const std::string& label, const std::string& text) {
  return fmt::format("{:<{}}{}\n", label, kIndent, text);
}

std::string Block(const std::string& label, const std::vector<std::string>& words) {
  if (words.empty()) return "";
  std::string text = Wrap(words, kIndent, kWidth);
  return text.replace(0, label.size(), label);
}

std::vector<std::string> WordsOf(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), std::istream_iterator<std::string>()};
}

std::string Plural(int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string ModelText(const TransformerConfig& model) {
  return fmt::format("{}, hidden {}, ffn {} {}, {} in {} of {} channels, {}, {}, vocabulary {} {}",
                     Plural(model.num_layers, "layer"), model.hidden_size, model.ffn_hidden_size,
                     Name(model.activation), Plural(model.num_attention_heads, "head"),
                     Plural(model.num_query_groups, "group"), model.kv_channels,
                     Name(model.normalization), Name(model.position_embedding), model.vocab_size,
                     Name(model.vocab_padding));
}

std::string Microbatches(int64_t count) {
  return fmt::format("{} microbatch{}", count, count == 1 ? "" : "es");
}

// Empty for a single stage.
std::string PipelineText(const RunConfig& config) {
  if (config.parallel.pp == 1) return "";
  const ScheduleConfig schedule = ScheduleConfigOf(config);
  std::string text =
      fmt::format("{}, {} of {}, {} each", Name(schedule.kind), Plural(schedule.pp, "stage"),
                  Plural(schedule.virtual_chunks, "chunk"), Microbatches(schedule.microbatches));
  if (config.parallel.recompute_granularity == RecomputeGranularity::kFull) {
    text += ", layers recomputed";
  }
  return text;
}

// Empty without gradient buffers.
std::string GradientText(const RunConfig& config) {
  const DataParallelConfig& data = config.parallel.data;
  if (!data.gradient_buffers) return "";
  std::string text = fmt::format("{} in buffers", Name(config.grad_dtype()));
  if (data.sharding_strategy >= ShardingStrategy::kOptimGrads) {
    text += ", a bucket for each unit";
  } else if (data.overlap_grad_reduce) {
    text += fmt::format(", buckets of at least {} elements", BucketSizeOf(config.parallel));
  }
  text += fmt::format("; {}", Name(data.sharding_strategy));
  if (data.num_distributed_optimizer_instances > 1) {
    text += fmt::format(" in {} instances", data.num_distributed_optimizer_instances);
  }
  text +=
      data.overlap_grad_reduce ? "; reduced during the backward" : "; reduced after the backward";
  if (data.overlap_param_gather) text += ", weights gathered during the forward";
  if (data.average_in_collective) text += "; averaged in the collective";
  return text;
}

std::string TrainText(const RunConfig& config) {
  const TrainConfig& train = config.train;
  return fmt::format("{} of {} of {} x {} tokens, {} lr {}, clip {}, {}",
                     Plural(train.steps, "step"), Microbatches(train.global_microbatches()),
                     train.micro_batch_size, config.model.seq_length, Name(train.optimizer),
                     train.lr, train.clip_grad,
                     train.calculate_per_token_loss ? "loss per token" : "loss per microbatch");
}

// Settings that act and were not given, as arguments. A flag that is off is left out.
std::vector<std::string> NotGiven(const RunOptions& options) {
  std::vector<std::string> words;
  for (const Setting& setting : options.settings) {
    if (setting.given || !setting.acts) continue;
    const bool* flag = std::get_if<bool>(&setting.value);
    if (flag == nullptr) {
      words.push_back(fmt::format("--{} {}", setting.name, ToText(setting.value)));
    } else if (*flag) {
      words.push_back("--" + setting.name);
    }
  }
  return words;
}

std::string RanksText(const Finding& finding) {
  std::string text = fmt::format("{}", fmt::join(finding.ranks, ", "));
  if (!finding.places.empty()) text += fmt::format(" ({})", PlacesText(finding.places));
  if (finding.group.empty()) return text;
  return text + (text.empty() ? "" : " ") + "in " + finding.group;
}

// All that is known. What a mistake of this kind usually is stands at the end of the message.
std::string FirstFindingText(const Console& console, const Finding& finding) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&rows](const char* label, const std::string& text) {
    if (!text.empty()) rows.push_back({std::string("  ") + label, text});
  };
  add("where", ToString(finding.site));
  add("ranks", RanksText(finding));
  add("actual", finding.actual);
  add("reference", finding.reference);
  if (!finding.formula.empty()) {
    add("formula", fmt::format("{} (residual {:.2g})", finding.formula, finding.residual));
  }
  constexpr std::string_view kUsually = "; usually ";
  const size_t usually = finding.message.rfind(kUsually);
  if (usually != std::string::npos) {
    add("usually", finding.message.substr(usually + kUsually.size()));
  } else if (finding.formula.empty()) {
    add("says", finding.message);
  }
  add("repeat", finding.repeat);
  return fmt::format("first divergence: {}\n{}",
                     Paint(console, Colour::kRed, std::string(Name(finding.kind))),
                     FormatTable(rows, {}));
}

std::string LaterFindingsText(const std::vector<Finding>& findings) {
  std::string text = "then\n";
  for (size_t i = 1; i < findings.size(); ++i) {
    text += fmt::format("  {}  {}\n", Name(findings[i].kind), findings[i].message);
  }
  return text;
}

// In a field there is nothing between equal and not.
std::string ExactTable(const Verdict& verdict) {
  std::vector<std::vector<std::string>> rows = {
      {"quantity", "tensors", "values", "unequal", "where most are"}};
  for (const ComparedQuantity& compared : verdict.compared) {
    const bool any = compared.worst != 0;
    rows.push_back({compared.quantity, fmt::format("{}", compared.tensors),
                    fmt::format("{}", compared.values), fmt::format("{}", compared.worst),
                    any ? ToString(compared.worst_site) : "all are equal"});
  }
  return FormatTable(rows, {1, 2, 3});
}

std::string ExactText(const ExactVerdict& exact) {
  std::string text = fmt::format("{}, p = {}", Plural(exact.keys, "key"), exact.prime);
  if (exact.void_runs > 0) {
    text += fmt::format(", {} void (divided by 0) and repeated", Plural(exact.void_runs, "run"));
  }
  return text;
}

// "2^-8"
std::string UnitText(double unit) { return fmt::format("2^{}", std::ilogb(unit)); }

// In units of the dtype's rounding. Of what the optimizer holds bounds follow from the gradients'.
std::string LowPrecisionTable(const Verdict& verdict) {
  const LowPrecisionVerdict& of = *verdict.low_precision;
  std::vector<std::vector<std::string>> rows = {
      {"quantity", "tensors", "values", "worst", "floor", "bound", "where it is worst"}};
  for (const ComparedQuantity& compared : verdict.compared) {
    const bool any = compared.worst != 0;
    const auto units = [&](double deviation) {
      return any ? fmt::format("{:.2f}", deviation / of.unit) : "0";
    };
    rows.push_back({compared.quantity, fmt::format("{}", compared.tensors),
                    fmt::format("{}", compared.values), units(compared.worst),
                    units(compared.floor), units(compared.bound),
                    any ? ToString(compared.worst_site) : "all are equal"});
  }
  return fmt::format(
      "in units of {} ({}); floor: the worst of {} one-rank runs; bound: {} x floor, at least {};\n"
      "of weights and moments what the optimizer makes of gradients within their bounds\n{}",
      UnitText(of.unit), Name(of.dtype), of.runs, of.multiple, of.multiple * of.minimum,
      FormatTable(rows, {1, 2, 3, 4, 5}));
}

std::string ComparedTable(const Verdict& verdict) {
  if (verdict.exact) return ExactTable(verdict);
  if (verdict.low_precision) return LowPrecisionTable(verdict);
  std::vector<std::vector<std::string>> rows = {
      {"quantity", "tensors", "values", "worst", "bound", "where it is worst"}};
  for (const ComparedQuantity& compared : verdict.compared) {
    const bool any = compared.worst != 0;
    rows.push_back({compared.quantity, fmt::format("{}", compared.tensors),
                    fmt::format("{}", compared.values), fmt::format("{:.2g}", compared.worst),
                    fmt::format("{:.2g}", compared.bound),
                    any ? ToString(compared.worst_site) : "all are equal"});
  }
  return FormatTable(rows, {1, 2, 3, 4});
}

}  // namespace

std::string RunText(const RunOptions& options, int64_t data_bytes) {
  const ParallelConfig& parallel = options.config.parallel;
  std::string text = Line(
      "layout", fmt::format("{}: tp {}, dp {}{}{}, order {}; {}; seed {}",
                            Plural(parallel.world_size(), "rank"), parallel.tp, parallel.dp,
                            parallel.sequence_parallel ? ", sequence parallel" : "",
                            parallel.pp > 1 ? fmt::format(", pp {}", parallel.pp) : "",
                            parallel.order, Name(options.config.dtype), options.config.train.seed));
  text += Block("pipeline", WordsOf(PipelineText(options.config)));
  text += Block("gradients", WordsOf(GradientText(options.config)));
  text += Block("model", WordsOf(ModelText(options.config.model)));
  text += Block("training", WordsOf(TrainText(options.config)));
  text += Line("data", options.data.empty()
                           ? Plural(data_bytes, "byte") + " drawn from the seed (no --data)"
                           : Plural(data_bytes, "byte") + " of " + options.data);
  if (!options.plant.empty()) text += Line("planted", options.plant);
  text += Block("default", NotGiven(options));
  if (!options.ignored.empty()) {
    std::vector<std::string> words;
    for (const std::string& name : options.ignored) words.push_back("--" + name);
    text += Line("ignored", fmt::format("{} (no effect on values)", fmt::join(words, " ")));
  }
  for (const std::string& note : options.notes) text += Line("note", note);
  return text;
}

std::string VerdictText(const Console& console, const RunOptions& options, const Verdict& verdict) {
  std::string text = "\n" + ComparedTable(verdict) + "\n";
  if (!verdict.findings.empty()) text += FirstFindingText(console, verdict.findings[0]) + "\n";
  if (verdict.findings.size() > 1) text += LaterFindingsText(verdict.findings) + "\n";
  const int ranks = options.config.parallel.world_size();
  if (verdict.pass && verdict.exact) {
    return text + fmt::format(
                      "{}  all {} values on {} equal ({}; chance that a wrong program "
                      "looks equal at most {:.1e})\n",
                      Paint(console, Colour::kGreen, "PASS"), verdict.exact->values,
                      Plural(ranks, "rank"), ExactText(*verdict.exact),
                      verdict.exact->false_equality);
  }
  if (verdict.pass) {
    int64_t tensors = 0;
    for (const ComparedQuantity& compared : verdict.compared) tensors += compared.tensors;
    return text + fmt::format("{}  {} on {} compared with the reference\n",
                              Paint(console, Colour::kGreen, "PASS"), Plural(tensors, "tensor"),
                              Plural(ranks, "rank"));
  }
  const int64_t count = static_cast<int64_t>(verdict.findings.size()) + verdict.more_findings;
  text += fmt::format("{}  {}", Paint(console, Colour::kRed, "FAIL"), Plural(count, "finding"));
  if (verdict.more_findings > 0) {
    text += fmt::format(", the first {} of them listed (--max-findings)", verdict.findings.size());
  }
  if (verdict.exact) {
    text += fmt::format("; {} of {} values unequal ({})", verdict.exact->unequal,
                        verdict.exact->values, ExactText(*verdict.exact));
  }
  if (!verdict.completed) text += "; the run ended before its last step";
  return text + "\n";
}

}  // namespace plumbline
