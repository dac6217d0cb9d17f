// Timelines as a file for Chrome's tracing page or Perfetto.
#ifndef PLUMBLINE_CLI_TIMELINE_TRACE_H_
#define PLUMBLINE_CLI_TIMELINE_TRACE_H_

#include <string>
#include <utility>
#include <vector>

#include "cli/timeline_input.h"
#include "parallel/data/timeline.h"

namespace plumbline {

// Chrome's trace-event JSON: a process for each overlap, a thread for each stream, times in
// microseconds.
std::string TraceJson(const StageTimelineInput& input,
                      const std::vector<std::pair<Overlap, Timeline>>& timelines);

}  // namespace plumbline

#endif  // PLUMBLINE_CLI_TIMELINE_TRACE_H_
