#pragma once

#include "config/map_reader.h"
#include "simurgh/config/learning_rate.h"

namespace simurgh {

// ftrl: whether the optimizer divides by the rate, which then must not become 0.
void ReadLearningRateSchedule(MapReader& in, bool ftrl, LearningRateSchedule* schedule);

}  // namespace simurgh
