#include "parallel/pipeline/schedule_builder.h"

#include "parallel/pipeline/schedule_messages.h"
#include "parallel/pipeline/schedule_order.h"

namespace plumbline {

Schedule MakeSchedule(const ScheduleConfig& config) {
  Validate(config);
  return {config, WithMessages(config, ComputeOrder(config))};
}

}  // namespace plumbline
