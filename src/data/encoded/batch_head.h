#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "data/encoded/bytes.h"
#include "data/encoded/id_list_code.h"
#include "simurgh/base/status.h"
#include "simurgh/data/encoded_batch.h"

namespace simurgh {

// The start of an encoded batch: all element counts.
struct BatchHead {
  size_t samples = 0;
  size_t features = 0;
  bool is_bare = false;
  bool is_weighted = false;  // Some feature has weights.
  size_t list_count = 0;
  std::vector<uint32_t> lists;  // (F) the list of each feature; none: one each.
  size_t occurrences = 0;
  std::vector<IdListHead> id_lists;  // (list_count) in the coded form.
};

// Reads the head from `in`, which begins with the codes of `encoded`. cluster_features: as
// DecodedSizes. Errors: INVALID_ARGUMENT, also beyond the limits of a batch or of its bytes.
StatusOr<BatchHead> ReadBatchHead(const EncodedBatch& encoded,
                                  std::optional<size_t> cluster_features, ByteReader& in);

}  // namespace simurgh
