#pragma once

#include "simurgh/base/random.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/data/compact_batch.h"

namespace simurgh::testing {

// A batch of some features of all kinds: lists of their own or shared, one id a sample or any
// number, few ids or many, weighted or not, of wild, small or ascending ids.
CompactBatch RandomBatch(Random& random);

}  // namespace simurgh::testing
