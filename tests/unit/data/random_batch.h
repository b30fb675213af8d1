#pragma once

#include "base/random.h"
#include "data/batch/batch.h"
#include "data/batch/batch_builder.h"

namespace simurgh::testing {

// A batch of features of all kinds: separate or shared lists, one id per sample or any number, few
// ids or many, weighted or not, with wild, small or ascending ids.
CompactBatch RandomBatch(Random& random);

}  // namespace simurgh::testing
