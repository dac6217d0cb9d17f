// A simulated pipeline schedule as an SVG picture that needs nothing but itself.
#ifndef PLUMBLINE_CLI_SCHEDULE_SVG_H_
#define PLUMBLINE_CLI_SCHEDULE_SVG_H_

#include <string>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/simulate.h"

namespace plumbline {

// `title` and `subtitle` stand above the picture. Each operation is a box with its microbatch,
// where it is wide enough, and with a tooltip. For a schedule that ran.
std::string ScheduleSvg(const Schedule& schedule, const Simulation& simulation,
                        const std::string& title, const std::string& subtitle);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_SCHEDULE_SVG_H_
