// Mistakes of pipelines: messages, tied embeddings, what a stage does with its microbatches.
#ifndef PLUMBLINE_SCENARIOS_PLANTED_PIPELINE_H_
#define PLUMBLINE_SCENARIOS_PLANTED_PIPELINE_H_

#include <vector>

#include "scenarios/planted_mistake.h"

namespace plumbline {

std::vector<Planted> PlantedPipelineMistakes();

}  // namespace plumbline

#endif  // PLUMBLINE_SCENARIOS_PLANTED_PIPELINE_H_
