#include "base/error.h"

namespace plumbline {

RunningRank& CurrentRank() {
  thread_local RunningRank running;
  return running;
}

namespace internal {

void CheckFailed(const char* expression, const char* file, int line, const std::string& values) {
  const RunningRank& running = CurrentRank();
  const std::string who = running.global_rank < 0 ? std::string()
                                                  : fmt::format(" on rank {} (seed {})",
                                                                running.global_rank, running.seed);
  throw Internal("{}:{}: check failed{}: {} ({})", file, line, who, expression, values);
}

}  // namespace internal
}  // namespace plumbline
