// Every legal pipeline against the reference: in f64 within the bound, over a prime field without
// any tolerance.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "parallel/pipeline/stage_layout.h"
#include "scenarios/verify.h"
#include "tests/base/sweep.h"
#include "tests/scenarios/scenario_testing.h"

namespace plumbline {
namespace {

struct Cell {
  std::string name;
  Scenario scenario;
};

bool IsLegal(const RunConfig& config) {
  try {
    Validate(config);
    ScheduleConfigOf(config);
    return true;
  } catch (const InvalidArgument&) {
    return false;
  }
}

Scenario Pipelined(int model, const std::string& schedule, int pp, int chunks, int microbatches,
                   int tp, int dp) {
  Scenario scenario =
      MakeScenario(NamedModels()[static_cast<size_t>(model)], {tp, dp, tp > 1}, microbatches);
  RunConfig& config = scenario.config;
  config.model.num_layers = int64_t{1} * pp * chunks;
  config.train.steps = 2;
  config.parallel.pp = pp;
  config.parallel.virtual_stages = chunks;
  config.parallel.schedule = schedule;
  return scenario;
}

// One model after the other, so that each cell has one tied and one untied.
std::vector<Cell> LegalCells(const std::string& schedule, int pp) {
  std::vector<int> tied_models;
  std::vector<int> untied_models;
  for (int i = 0; i < static_cast<int>(NamedModels().size()); ++i) {
    (NamedModels()[static_cast<size_t>(i)].model.tied_embeddings ? tied_models : untied_models)
        .push_back(i);
  }
  std::vector<Cell> cells;
  size_t turn = 0;
  for (int tp : {1, 2}) {
    for (int dp : {1, 2}) {
      for (int chunks : {1, 2, 3}) {
        for (int microbatches : {1, 2, 5, 6, 8}) {
          for (const std::vector<int>& models : {tied_models, untied_models}) {
            const int model = models[turn % models.size()];
            Scenario scenario = Pipelined(model, schedule, pp, chunks, microbatches, tp, dp);
            if (!IsLegal(scenario.config)) continue;
            cells.push_back({schedule + " pp " + std::to_string(pp) + " virtual " +
                                 std::to_string(chunks) + " microbatches " +
                                 std::to_string(microbatches) + " tp " + std::to_string(tp) +
                                 " dp " + std::to_string(dp) + " " +
                                 NamedModels()[static_cast<size_t>(model)].name,
                             std::move(scenario)});
          }
          ++turn;
        }
      }
    }
  }
  return cells;
}

class PipelineVerifyTest : public ::testing::TestWithParam<std::tuple<std::string, int, DType>> {};

TEST_P(PipelineVerifyTest, EqualsTheReference) {
  const auto& [schedule, pp, dtype] = GetParam();
  std::vector<Cell> cells = SweepOf(LegalCells(schedule, pp));
  ASSERT_FALSE(cells.empty());
  for (Cell& cell : cells) {
    cell.scenario.config.dtype = dtype;
    const Verdict verdict = VerifyText(cell.scenario);
    ASSERT_TRUE(verdict.pass) << cell.name << "\n" << Describe(verdict);
    ASSERT_GT(verdict.compared.size(), 5u);
  }
}

std::vector<std::tuple<std::string, int, DType>> Parameters() {
  std::vector<std::tuple<std::string, int, DType>> all;
  for (const ScheduleKind kind : kAllScheduleKinds) {
    for (int pp : {1, 2, 3, 4, 8}) {
      if (kind == ScheduleKind::kInterleaved && pp == 1) continue;  // refused
      for (const DType dtype : {DType::kF64, DType::kM61}) all.emplace_back(Name(kind), pp, dtype);
    }
  }
  return all;
}

std::string NameOf(const std::tuple<std::string, int, DType>& parameter) {
  const auto& [schedule, pp, dtype] = parameter;
  std::string name = schedule + "_pp" + std::to_string(pp) + "_" + std::string(Name(dtype));
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, PipelineVerifyTest, ::testing::ValuesIn(Parameters()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace plumbline
