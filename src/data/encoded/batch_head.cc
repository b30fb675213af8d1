#include "data/encoded/batch_head.h"

#include <string_view>

#include "absl/strings/str_format.h"

#include "data/encoded/format.h"
#include "data/encoded/packed_numbers.h"
#include "data/invalid.h"

namespace simurgh {
namespace {

Status Early(const EncodedBatch& encoded, std::string_view what) {
  return Invalid("batch: truncated after %d bytes, in %s", encoded.codes.size(), what);
}

Status CheckCells(const EncodedBatch& encoded, const BatchHead& head) {
  if (head.samples > kMaxBatchSamples) {
    return Invalid("batch: %d samples exceed the limit of %d", head.samples, kMaxBatchSamples);
  }
  const bool fits = head.features <= kMaxBatchCells &&
                    (head.is_bare ? MayBeBare(head.features, head.samples, encoded.plain_ids.size())
                                  : MayBeCoded(head.features, head.samples, encoded.byte_size()));
  if (!fits || head.features * head.samples > kMaxBatchCells) {
    return Invalid(
        "batch: %d features of %d samples exceed %d bytes and %d ids or the limit of %d cells",
        head.features, head.samples, encoded.codes.size(), encoded.plain_ids.size(),
        kMaxBatchCells);
  }
  return absl::OkStatus();
}

Status ReadSharedLists(const EncodedBatch& encoded, ByteReader& in, BatchHead& head) {
  head.list_count = in.Number();
  if (head.list_count >= head.features) {
    return Invalid("batch: %d lists that %d features share, must be fewer than these",
                   head.list_count, head.features);
  }
  uint64_t used = 0;
  for (size_t f = 0; f < head.features; ++f) {
    const uint64_t list = in.Number();
    if (list > used || list >= head.list_count) {
      return Invalid("batch: feature %d: list %d of %d, expected at most %d", f, list,
                     head.list_count, used);
    }
    if (list == used) ++used;
    head.lists.push_back(static_cast<uint32_t>(list));
  }
  if (!in.ok()) return Early(encoded, "the lists of features");
  if (used != head.list_count) {
    return Invalid("batch: %d lists, of which %d have a feature", head.list_count, used);
  }
  return absl::OkStatus();
}

// Reads the counts of the coded form. In the bare form, plain ids give them.
Status ReadCounts(const EncodedBatch& encoded, ByteReader& in, BatchHead& head) {
  head.occurrences = in.Number();
  // An occurrence takes at least one bit, or it has an id of its own; a block of ids may take only
  // one byte.
  const uint64_t most = kPackedBlock * encoded.byte_size();
  if (head.occurrences > kMaxBatchOccurrences || head.occurrences > most) {
    return Invalid("batch: %d occurrences exceed the limit of %d, or the %d that %d bytes can hold",
                   head.occurrences, kMaxBatchOccurrences, most, encoded.byte_size());
  }
  size_t left = head.occurrences;  // Each id occurs.
  for (size_t l = 0; l < head.list_count; ++l) {
    const auto list = ReadIdListHead(in, left);
    if (!list.ok()) return Annotate(list.status(), absl::StrFormat("batch: list %d", l));
    head.id_lists.push_back(*list);
    left -= list->count;
  }
  return in.ok() ? absl::OkStatus() : Early(encoded, "the heads of lists");
}

}  // namespace

StatusOr<BatchHead> ReadBatchHead(const EncodedBatch& encoded,
                                  std::optional<size_t> cluster_features, ByteReader& in) {
  BatchHead head;
  const uint8_t version = in.Byte();
  head.samples = in.Number();
  head.features = in.Number();
  const uint8_t flags = in.Byte();
  if (!in.ok()) return Early(encoded, "the head");
  if (version != kBatchVersion) {
    return Invalid("batch: version %d, known is %d; run the same version of all daemons", version,
                   kBatchVersion);
  }
  if (flags > (kSharedLists | kBare | kSomeWeighted)) {
    return Invalid("batch: unknown flags %d", flags);
  }
  // Before anything that takes time or memory for each feature.
  if (cluster_features.has_value() && head.features != *cluster_features) {
    return Invalid(
        "the batch has %d features, the cluster has %d; give all daemons the same configuration",
        head.features, *cluster_features);
  }
  head.is_bare = (flags & kBare) != 0;
  head.is_weighted = (flags & kSomeWeighted) != 0;
  SIMURGH_RETURN_IF_ERROR(CheckCells(encoded, head));
  head.list_count = head.features;
  if ((flags & kSharedLists) != 0) SIMURGH_RETURN_IF_ERROR(ReadSharedLists(encoded, in, head));
  head.occurrences = encoded.plain_ids.size();
  if (!head.is_bare) {
    SIMURGH_RETURN_IF_ERROR(ReadCounts(encoded, in, head));
  } else if (head.occurrences > kMaxBatchOccurrences) {
    return Invalid("batch: %d plain ids exceed the limit of %d", head.occurrences,
                   kMaxBatchOccurrences);
  }
  return head;
}

size_t BatchSizes::bytes() const {
  return ids * sizeof(uint64_t) + (occurrences + offsets + unique_ends + lists) * sizeof(uint32_t) +
         weights * sizeof(float);
}

StatusOr<BatchSizes> DecodedSizes(const EncodedBatch& encoded,
                                  std::optional<size_t> cluster_features) {
  ByteReader in(encoded.codes);
  SIMURGH_ASSIGN_OR_RETURN(const BatchHead head, ReadBatchHead(encoded, cluster_features, in));
  size_t ids = head.is_bare ? head.occurrences : 0;
  for (const IdListHead& list : head.id_lists) ids += list.count;
  return BatchSizes{.ids = ids,
                    .occurrences = head.occurrences,
                    .offsets = head.features * head.samples + 1,
                    .unique_ends = head.list_count,
                    .lists = head.lists.size(),
                    .weights = head.is_weighted ? head.occurrences : 0};
}

}  // namespace simurgh
