#include <algorithm>
#include <optional>
#include <string_view>

#include "absl/strings/str_format.h"

#include "data/encoded/bare_batch.h"
#include "data/encoded/batch_head.h"
#include "data/encoded/format.h"
#include "data/encoded/id_list_code.h"
#include "data/encoded/occurrence_code.h"
#include "data/encoded/packed_numbers.h"
#include "data/encoded/sample_lengths.h"
#include "data/encoded/weights.h"
#include "data/invalid.h"
#include "simurgh/data/encoded_batch.h"

namespace simurgh {
namespace {

// As resize, but allocates at most the memory of `most` elements.
template <typename T>
void Grow(std::vector<T>& elements, size_t size, size_t most) {
  if (size > elements.capacity()) {
    elements.reserve(std::min(most, std::max(size, 2 * elements.capacity())));
  }
  elements.resize(size);
}

class BatchDecoder {
 public:
  BatchDecoder(EncodedBatch& encoded, CompactBatch& batch, std::optional<size_t> cluster_features)
      : encoded_(encoded), cluster_features_(cluster_features), in_(encoded.codes), batch_(batch) {}

  Status Decode() {
    Forget();
    const Status decoded = Parts();
    if (decoded.ok()) return decoded;
    const size_t bytes = encoded_.codes.size();
    return Invalid("%s (at byte %d of %d)", decoded.message(), bytes - in_.Rest().size(), bytes);
  }

 private:
  // Clears the batch and keeps its memory.
  void Forget() {
    batch_.occurrences.clear();
    batch_.offsets.clear();
    batch_.lists.clear();
    batch_.weights.clear();
  }

  Status Parts() {
    SIMURGH_ASSIGN_OR_RETURN(head_, ReadBatchHead(encoded_, cluster_features_, in_));
    batch_.batch_size = static_cast<uint32_t>(head_.samples);
    batch_.lists.assign(head_.lists.begin(), head_.lists.end());
    Grow(batch_.unique_ends, head_.list_count, head_.list_count);
    if (head_.is_bare) {
      SIMURGH_RETURN_IF_ERROR(DecodeBare(encoded_.plain_ids, head_.is_weighted, in_, batch_));
      return End();
    }
    SIMURGH_RETURN_IF_ERROR(PlaceIds());
    batch_.offsets.push_back(0);
    seen_.resize(batch_.list_count());
    for (size_t f = 0; f < head_.features; ++f) {
      const Status decoded = Feature(f);
      if (!decoded.ok()) return Annotate(decoded, absl::StrFormat("batch: feature %d", f));
    }
    SIMURGH_RETURN_IF_ERROR(End());
    return AllIdsOccur();
  }

  Status PlaceIds();
  Status Feature(size_t feature);
  Status End();
  Status AllIdsOccur() const;

  Status Early(std::string_view what) const {
    return Invalid("batch: truncated after %d bytes, in %s", encoded_.codes.size(), what);
  }

  EncodedBatch& encoded_;
  const std::optional<size_t> cluster_features_;
  ByteReader in_;
  CompactBatch& batch_;
  BatchHead head_;
  std::vector<uint32_t> seen_;  // By list: number of ids that have appeared.
};

Status BatchDecoder::PlaceIds() {
  uint64_t plain = 0;
  uint64_t packed = 0;
  for (size_t l = 0; l < head_.id_lists.size(); ++l) {
    const IdListHead& list = head_.id_lists[l];
    (list.coding == IdListCoding::kPlain ? plain : packed) += list.count;
    batch_.unique_ends[l] = static_cast<uint32_t>(plain + packed);
  }
  if (plain != encoded_.plain_ids.size()) {
    return Invalid("batch: %d plain ids, expected %d", encoded_.plain_ids.size(), plain);
  }
  if (packed == 0) {
    batch_.ids.swap(encoded_.plain_ids);
    return absl::OkStatus();
  }
  if (packed > kPackedBlock * in_.Rest().size()) return Early("the ids");
  Grow(batch_.ids, plain + packed, plain + packed);
  auto source = encoded_.plain_ids.begin();
  for (size_t l = 0, first = 0; l < head_.id_lists.size(); first += head_.id_lists[l++].count) {
    const auto [count, coding] = head_.id_lists[l];
    const std::span<uint64_t> ids = std::span(batch_.ids).subspan(first, count);
    if (coding == IdListCoding::kPlain) {
      std::copy_n(source, ids.size(), ids.begin());
      source += static_cast<ptrdiff_t>(ids.size());
    } else {
      const Status read = ReadPackedIds(coding, in_, ids);
      if (!read.ok()) return Annotate(read, absl::StrFormat("batch: list %d", l));
    }
  }
  return absl::OkStatus();
}

Status BatchDecoder::Feature(size_t feature) {
  const uint8_t flags = in_.Byte();
  if (flags > kWeighted) {
    return Invalid("unknown flags %d", flags);
  }
  if (flags == kWeighted && !head_.is_weighted) {
    return absl::InvalidArgumentError("weights are not announced in the head");
  }
  // Grows feature by feature, so that a head alone cannot allocate much.
  Grow(batch_.offsets, (feature + 1) * head_.samples + 1, head_.features * head_.samples + 1);
  const auto offsets = std::span(batch_.offsets).last(size_t{batch_.batch_size} + 1);
  SIMURGH_RETURN_IF_ERROR(DecodeSampleLengths(in_, offsets));
  if (offsets.back() == offsets.front()) return absl::OkStatus();
  if (offsets.back() > head_.occurrences) {
    return Invalid("%d ids so far, expected at most %d", offsets.back(), head_.occurrences);
  }
  Grow(batch_.occurrences, offsets.back(), head_.occurrences);
  uint32_t& seen = seen_[batch_.list_of(feature)];
  SIMURGH_RETURN_IF_ERROR(
      DecodeOccurrences(in_, seen, std::span(batch_.occurrences).subspan(offsets.front())));
  if (flags != kWeighted) return absl::OkStatus();
  batch_.weights.reserve(head_.occurrences);
  return ReadWeights(in_, offsets.front(), offsets.back(), batch_.weights);
}

Status BatchDecoder::End() {
  if (!in_.ok()) return Early("the last feature");
  if (!in_.Rest().empty()) {
    return Invalid("batch: %d extra bytes", in_.Rest().size());
  }
  if (batch_.occurrences.size() != head_.occurrences) {
    return Invalid("batch: %d ids, expected %d", batch_.occurrences.size(), head_.occurrences);
  }
  if (!batch_.weights.empty()) batch_.weights.resize(batch_.occurrences.size(), 1.0F);
  return absl::OkStatus();
}

Status BatchDecoder::AllIdsOccur() const {
  for (size_t l = 0; l < seen_.size(); ++l) {
    const size_t size = batch_.list(l).size();
    if (seen_[l] != size) {
      return Invalid("batch: list %d: %d of %d ids occur; all must", l, seen_[l], size);
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<CompactBatch> DecodeBatch(EncodedBatch encoded, std::optional<size_t> cluster_features) {
  CompactBatch batch;
  SIMURGH_RETURN_IF_ERROR(DecodeBatch(encoded, batch, cluster_features));
  return batch;
}

Status DecodeBatch(EncodedBatch& encoded, CompactBatch& batch,
                   std::optional<size_t> cluster_features) {
  return BatchDecoder(encoded, batch, cluster_features).Decode();
}

}  // namespace simurgh
