#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"

#include "data/encoded/bare_batch.h"
#include "data/encoded/format.h"
#include "data/encoded/id_list_code.h"
#include "data/encoded/occurrence_code.h"
#include "data/encoded/packed_numbers.h"
#include "data/encoded/sample_lengths.h"
#include "data/encoded/weights.h"
#include "simurgh/data/encoded_batch.h"

namespace simurgh {
namespace {

class BatchDecoder {
 public:
  BatchDecoder(EncodedBatch& encoded, CompactBatch& batch)
      : encoded_(encoded), bytes_(encoded.byte_size()), in_(encoded.codes), batch_(batch) {}

  Status Decode() {
    Forget();
    const Status decoded = Parts();
    if (decoded.ok()) return decoded;
    const size_t bytes = encoded_.codes.size();
    return absl::InvalidArgumentError(absl::StrFormat("%s (at byte %d of %d)", decoded.message(),
                                                      bytes - in_.Rest().size(), bytes));
  }

 private:
  // What the batch held before; its memory stays.
  void Forget() {
    batch_.occurrences.clear();
    batch_.offsets.clear();
    batch_.lists.clear();
    batch_.weights.clear();
  }

  Status Parts() {
    SIMURGH_RETURN_IF_ERROR(Head());
    if ((flags_ & kBare) != 0) {
      SIMURGH_RETURN_IF_ERROR(
          DecodeBare(encoded_.plain_ids, (flags_ & kBareWeighted) != 0, in_, batch_));
      return End();
    }
    SIMURGH_RETURN_IF_ERROR(Lists());
    batch_.offsets.push_back(0);
    seen_.resize(batch_.list_count());
    for (size_t f = 0; f < features_; ++f) {
      const Status decoded = Feature(f);
      if (!decoded.ok()) return Annotate(decoded, absl::StrFormat("batch: feature %d", f));
    }
    SIMURGH_RETURN_IF_ERROR(End());
    return AllIdsOccur();
  }

  Status Head();
  Status CheckSize(uint64_t samples) const;
  Status SharedLists();
  Status Lists();
  Status PlaceIds(const std::vector<IdListHead>& heads);
  Status Feature(size_t feature);
  Status End();
  Status AllIdsOccur() const;

  Status Early(std::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch: its %d bytes end in %s", encoded_.codes.size(), what));
  }

  EncodedBatch& encoded_;
  const size_t bytes_;
  ByteReader in_;
  CompactBatch& batch_;
  size_t features_ = 0;
  uint8_t flags_ = 0;
  std::vector<uint32_t> seen_;  // Ids of each list that have appeared.
};

Status BatchDecoder::Head() {
  const uint8_t version = in_.Byte();
  const uint64_t samples = in_.Number();
  features_ = in_.Number();
  flags_ = in_.Byte();
  if (!in_.ok()) return Early("the head");
  if (version != kBatchVersion) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch: version %d, known is %d", version, kBatchVersion));
  }
  if (flags_ > (kSharedLists | kBare | kBareWeighted) ||
      (flags_ & ~kSharedLists) == kBareWeighted) {
    return absl::InvalidArgumentError(absl::StrFormat("batch: unknown flags %d", flags_));
  }
  SIMURGH_RETURN_IF_ERROR(CheckSize(samples));
  batch_.batch_size = static_cast<uint32_t>(samples);
  batch_.unique_ends.resize(features_);
  return (flags_ & kSharedLists) != 0 ? SharedLists() : absl::OkStatus();
}

Status BatchDecoder::CheckSize(uint64_t samples) const {
  if (samples > kMaxBatchSamples) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch: %d samples exceed the limit of %d", samples, kMaxBatchSamples));
  }
  const bool is_bare = (flags_ & kBare) != 0;
  const bool fits = features_ <= kMaxBatchCells &&
                    (is_bare ? MayBeBare(features_, samples, encoded_.plain_ids.size())
                             : MayBeCoded(features_, samples, bytes_));
  if (!fits || features_ * samples > kMaxBatchCells) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "batch: %d features of %d samples exceed %d bytes and %d ids or the limit of %d cells",
        features_, samples, encoded_.codes.size(), encoded_.plain_ids.size(), kMaxBatchCells));
  }
  return absl::OkStatus();
}

Status BatchDecoder::SharedLists() {
  const uint64_t lists = in_.Number();
  if (lists >= features_) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "batch: %d lists that %d features share, must be fewer than these", lists, features_));
  }
  batch_.unique_ends.resize(lists);
  uint64_t used = 0;
  for (size_t f = 0; f < features_; ++f) {
    const uint64_t list = in_.Number();
    if (list > used || list >= lists) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "batch: feature %d: list %d of %d, where %d are in use before it", f, list, lists, used));
    }
    if (list == used) ++used;
    batch_.lists.push_back(static_cast<uint32_t>(list));
  }
  if (!in_.ok()) return Early("the lists of features");
  if (used != lists) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch: %d lists, of which %d have a feature", lists, used));
  }
  return absl::OkStatus();
}

Status BatchDecoder::Lists() {
  std::vector<IdListHead> heads;
  uint64_t count = 0;
  for (size_t l = 0; l < batch_.list_count(); ++l) {
    const auto head = ReadIdListHead(in_, kMaxBatchOccurrences - count);
    if (!head.ok()) return Annotate(head.status(), absl::StrFormat("batch: list %d", l));
    heads.push_back(*head);
    count += head->count;
    batch_.unique_ends[l] = static_cast<uint32_t>(count);
  }
  if (!in_.ok()) return Early("the heads of lists");
  return PlaceIds(heads);
}

Status BatchDecoder::PlaceIds(const std::vector<IdListHead>& heads) {
  uint64_t plain = 0;
  uint64_t packed = 0;
  for (const IdListHead& head : heads) {
    (head.coding == IdListCoding::kPlain ? plain : packed) += head.count;
  }
  if (plain != encoded_.plain_ids.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch: %d plain ids, its lists say %d", encoded_.plain_ids.size(), plain));
  }
  if (packed == 0) {
    batch_.ids.swap(encoded_.plain_ids);
    return absl::OkStatus();
  }
  if (packed > kPackedBlock * in_.Rest().size()) return Early("the ids");
  batch_.ids.resize(plain + packed);
  auto source = encoded_.plain_ids.begin();
  for (size_t l = 0, first = 0; l < heads.size(); first += heads[l++].count) {
    const std::span<uint64_t> ids = std::span(batch_.ids).subspan(first, heads[l].count);
    if (heads[l].coding == IdListCoding::kPlain) {
      std::copy_n(source, ids.size(), ids.begin());
      source += static_cast<ptrdiff_t>(ids.size());
    } else {
      const Status read = ReadPackedIds(heads[l].coding, in_, ids);
      if (!read.ok()) return Annotate(read, absl::StrFormat("batch: list %d", l));
    }
  }
  return absl::OkStatus();
}

Status BatchDecoder::Feature(size_t feature) {
  const uint8_t flags = in_.Byte();
  if (flags > kWeighted) {
    return absl::InvalidArgumentError(absl::StrFormat("unknown flags %d", flags));
  }
  // Feature by feature: a head alone must not ask for memory.
  batch_.offsets.resize((feature + 1) * batch_.batch_size + 1);
  const auto offsets = std::span(batch_.offsets).last(size_t{batch_.batch_size} + 1);
  SIMURGH_RETURN_IF_ERROR(DecodeSampleLengths(in_, offsets));
  if (offsets.back() == offsets.front()) return absl::OkStatus();
  // An occurrence takes a bit at least, or is of an id of its own, of which a block may take a
  // byte.
  if (offsets.back() > kPackedBlock * bytes_) {
    return absl::InvalidArgumentError(absl::StrFormat("%d ids exceed the %d that %d bytes can hold",
                                                      offsets.back(), kPackedBlock * bytes_,
                                                      bytes_));
  }
  batch_.occurrences.resize(offsets.back());
  uint32_t& seen = seen_[batch_.list_of(feature)];
  SIMURGH_RETURN_IF_ERROR(
      DecodeOccurrences(in_, seen, std::span(batch_.occurrences).subspan(offsets.front())));
  if (flags != kWeighted) return absl::OkStatus();
  return ReadWeights(in_, offsets.front(), offsets.back(), batch_.weights);
}

Status BatchDecoder::End() {
  if (!in_.ok()) return Early("the last feature");
  if (!in_.Rest().empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("batch: %d bytes behind its end", in_.Rest().size()));
  }
  if (!batch_.weights.empty()) batch_.weights.resize(batch_.occurrences.size(), 1.0F);
  return absl::OkStatus();
}

Status BatchDecoder::AllIdsOccur() const {
  for (size_t l = 0; l < seen_.size(); ++l) {
    const size_t size = batch_.list(l).size();
    if (seen_[l] != size) {
      return absl::InvalidArgumentError(
          absl::StrFormat("batch: list %d: %d of %d ids occur; all must", l, seen_[l], size));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<CompactBatch> DecodeBatch(EncodedBatch encoded) {
  CompactBatch batch;
  SIMURGH_RETURN_IF_ERROR(DecodeBatch(encoded, batch));
  return batch;
}

Status DecodeBatch(EncodedBatch& encoded, CompactBatch& batch) {
  return BatchDecoder(encoded, batch).Decode();
}

}  // namespace simurgh
