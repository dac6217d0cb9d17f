// plumbline verify, and plumbline plants.
#include <fmt/format.h>

#include <chrono>
#include <optional>

#include "base/batch.h"
#include "base/init.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/files.h"
#include "cli/run_options.h"
#include "cli/verify_json.h"
#include "cli/verify_text.h"
#include "scenarios/planted.h"
#include "scenarios/verify.h"

namespace plumbline {
namespace {

// Enough that no step of a usual run sees a sample twice.
constexpr int64_t kDrawnBytes = int64_t{1} << 16;

Scenario MakeScenario(const RunOptions& options) {
  Scenario scenario;
  scenario.config = options.config;
  scenario.exact = options.exact;
  scenario.world.policy =
      options.random_schedule ? SchedulePolicy::kRandom : SchedulePolicy::kRoundRobin;
  scenario.world.seed = options.schedule_seed;
  scenario.world.on_mismatch =
      options.continue_on_mismatch ? OnMismatch::kContinue : OnMismatch::kStop;
  scenario.repeat = options.repeat;
  scenario.max_findings = options.max_findings;
  if (!options.plant.empty()) Plant(options.plant, scenario);
  return scenario;
}

}  // namespace

std::vector<uint8_t> DataOf(const RunOptions& options) {
  if (!options.data.empty()) return ReadFile("--data", options.data);
  const RandomStream stream = DataStream(options.config.train.seed, "text");
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < kDrawnBytes; ++i) {
    bytes.push_back(static_cast<uint8_t>(stream.Bits(static_cast<uint64_t>(i)) >> 56));
  }
  return bytes;
}

int RunVerify(const CommandLine& line, const Console& console) {
  const RunOptions options = MakeRunOptions(line);
  std::vector<uint8_t> bytes = DataOf(options);
  const int64_t data_bytes = static_cast<int64_t>(bytes.size());
  Scenario scenario = MakeScenario(options);
  const SeededParameters parameters(options.config.model, options.config.train.seed);
  const TextBatches batches(options.config.model, options.config.train, std::move(bytes));
  if (!options.json) console.out << RunText(options, data_bytes) << std::flush;

  ProgressLine progress(console);
  scenario.progress = [&progress](double fraction, const std::string& what) {
    progress.Show(fraction, what);
  };
  const auto start = std::chrono::steady_clock::now();
  const Verdict verdict = Verify(scenario, {parameters, batches});
  std::optional<double> wall_seconds;
  if (options.timings) {
    wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  progress.Clear();

  if (options.json) {
    console.out << VerdictJson(options, data_bytes, verdict, wall_seconds);
  } else {
    console.out << VerdictText(console, options, verdict);
    if (wall_seconds.has_value()) console.out << fmt::format("wall time {:.3f} s\n", *wall_seconds);
  }
  return verdict.pass ? 0 : 1;
}

int RunPlants(const Console& console) {
  std::vector<std::vector<std::string>> rows;
  for (const Planted& planted : PlantedMistakes()) rows.push_back({planted.name, planted.what});
  console.out << FormatTable(rows, {});
  return 0;
}

}  // namespace plumbline
