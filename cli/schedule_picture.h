// A simulated pipeline schedule as text: a row for each stage, a cell for each slot of time.
#ifndef PLUMBLINE_CLI_SCHEDULE_PICTURE_H_
#define PLUMBLINE_CLI_SCHEDULE_PICTURE_H_

#include <string>

#include "parallel/pipeline/schedule.h"
#include "parallel/pipeline/simulate.h"

namespace plumbline {

struct PictureStyle {
  bool colour = false;  // kinds and chunks as background colours instead of letters
  int width = 120;  // columns; longer rows go on below, and what would fill many screens is left
                    // out in the middle. 0: rows of any length
};

// Rows under a ruler of times, and a legend. A slot is as long as the greatest common divisor of
// all times. For a schedule that ran.
std::string SchedulePicture(const Schedule& schedule, const Simulation& simulation,
                            const PictureStyle& style);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_SCHEDULE_PICTURE_H_
