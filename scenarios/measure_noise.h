// Measures a noise floor (noise_floor.h): one-rank runs of a bf16 or fp16 configuration beside the
// f64 reference, with the same batches.
//
// Errors: InvalidArgument when the configuration is illegal; Internal when a run does not end.
#ifndef PLUMBLINE_SCENARIOS_MEASURE_NOISE_H_
#define PLUMBLINE_SCENARIOS_MEASURE_NOISE_H_

#include <functional>

#include "base/config.h"
#include "scenarios/noise_floor.h"
#include "scenarios/scenario.h"

namespace plumbline {

// The configuration without its layout. The dtype of main gradients stays.
RunConfig OnOneRank(const RunConfig& config);

// `inputs.parameters` are those that both programs start from: rounded. `progress` is called with
// the share of runs that ended.
NoiseFloor MeasureNoiseFloor(const RunConfig& config, const ScenarioInputs& inputs,
                             const NoiseFloorOptions& options,
                             const std::function<void(double)>& progress);

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_MEASURE_NOISE_H_
