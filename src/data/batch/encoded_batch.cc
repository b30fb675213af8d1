#include "data/batch/encoded_batch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "absl/strings/str_format.h"

#include "base/invalid.h"

namespace simurgh {
namespace {

static_assert(std::endian::native == std::endian::little, "batches are little-endian");

// The fields, by their bits: src/data/batch/COMPACT_BATCH.md.
constexpr uint8_t kVersion = 5;
constexpr int kVersionBits = 8;
constexpr int kSampleBits = 16;   // Bits of the number of samples.
constexpr int kFeatureBits = 32;  // Bits of the number of features or lists.
constexpr int kCountBits = 24;    // Bits of a number of ids or occurrences.
constexpr int kWeightBits = 32;
constexpr size_t kLengthGroup = 8;  // Samples with one bit for "all have the largest length".
constexpr uint64_t kHeadBits = kVersionBits + kSampleBits + 2 * kFeatureBits + kCountBits + 1;
constexpr uint64_t kFeatureHeadBits = 1 + kCountBits + 1;
static_assert(std::bit_width(kMaxBatchOccurrences) <= kCountBits);

constexpr uint64_t LowBits(int count) { return (uint64_t{1} << count) - 1; }

// Returns the bits of an index below `count`, which is above 0.
constexpr int IndexBits(uint32_t count) { return std::bit_width(count - 1); }

// Writes numbers of few bits consecutively, least significant bit first. Loops use a copy, which
// the compiler keeps in registers.
class BitWriter {
 public:
  // Requires room for all bits and 8 bytes more.
  explicit BitWriter(std::byte* out) : out_(out) {}

  // Requires count <= 56 (a word less a partial byte) and value < 2^count.
  void Put(uint64_t value, int count) {
    word_ |= value << held_;
    held_ += count;
    std::memcpy(out_, &word_, sizeof(word_));
    out_ += held_ >> 3;
    word_ >>= held_ & ~7;
    held_ &= 7;
  }

  const std::byte* end() const { return out_ + (held_ > 0 ? 1 : 0); }

 private:
  std::byte* out_;
  uint64_t word_ = 0;
  int held_ = 0;  // Bits in word_ that are not a whole byte yet.
};

// Reads the bits of a BitWriter. Bits after the end are zeros; position() then exceeds size().
class BitReader {
 public:
  explicit BitReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // Returns the next bits, of which 56 are valid. Does not advance.
  uint64_t Peek() const {
    const uint64_t byte = position_ >> 3;
    uint64_t word = 0;
    if (byte + sizeof(word) <= bytes_.size()) [[likely]] {
      std::memcpy(&word, bytes_.data() + byte, sizeof(word));
    } else if (byte < bytes_.size()) {
      std::memcpy(&word, bytes_.data() + byte, bytes_.size() - byte);
    }
    return word >> (position_ & 7);
  }

  void Skip(int count) { position_ += count; }

  uint64_t Take(int count) {
    const uint64_t value = Peek() & LowBits(count);
    Skip(count);
    return value;
  }

  uint64_t position() const { return position_; }      // Returns bits.
  uint64_t size() const { return 8 * bytes_.size(); }  // Returns bits.
  bool Has(uint64_t bits) const { return position_ + bits <= size(); }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

bool IsWeighted(std::span<const float> weights) {
  return std::any_of(weights.begin(), weights.end(), [](float weight) { return weight != 1.0F; });
}

// Returns whether a batch may have these cells. Samples without ids take no bits, so a few bytes
// could otherwise allocate any number of them.
bool MayHaveCells(uint64_t features, uint64_t samples, uint64_t bytes) {
  const uint64_t most = std::max<uint64_t>(kMaxBatchOccurrences, 64 * bytes);
  return features * samples <= std::min<uint64_t>(most, kMaxBatchCells);
}

// Checks that every id occurs. seen: the number of ids that occur, one per list.
Status CheckAllOccur(const CompactBatch& batch, std::span<const uint32_t> seen) {
  for (size_t l = 0; l < seen.size(); ++l) {
    const size_t size = batch.list(l).size();
    if (seen[l] == size) continue;
    return Invalid("batch: list %d: %d of %d ids occur; all must", l, seen[l], size);
  }
  return absl::OkStatus();
}

class BatchEncoder {
 public:
  explicit BatchEncoder(const CompactBatch& batch)
      : batch_(batch),
        is_weighted_(IsWeighted(batch.weights)),
        seen_(batch.list_count()),
        bytes_(std::make_unique_for_overwrite<std::byte[]>(MaxBytes())),
        out_(bytes_.get()) {}

  StatusOr<EncodedBatch> Encode() {
    Head();
    for (size_t f = 0; f < batch_.feature_count(); ++f) {
      if (Feature(batch_.feature(f), seen_[batch_.list_of(f)])) continue;
      return Invalid("batch: feature %d: its ids are not in the order of their first appearance",
                     f);
    }
    SIMURGH_RETURN_IF_ERROR(CheckAllOccur(batch_, seen_));
    const std::byte* begin = bytes_.get();
    return EncodedBatch{.plain_ids = batch_.ids, .codes = std::vector(begin, out_.end())};
  }

 private:
  // Returns an upper bound: the fields of each part, rounded up to bytes.
  size_t MaxBytes() const {
    return 32 + 11 * batch_.feature_count() + 4 * batch_.offsets.size() +
           8 * batch_.occurrences.size();
  }

  void Head() {
    out_.Put(kVersion, kVersionBits);
    out_.Put(batch_.batch_size, kSampleBits);
    out_.Put(batch_.feature_count(), kFeatureBits);
    out_.Put(batch_.list_count(), kFeatureBits);
    out_.Put(batch_.occurrences.size(), kCountBits);
    out_.Put(is_weighted_ ? 1 : 0, 1);
    if (batch_.list_count() < batch_.feature_count()) {
      appeared_.resize(batch_.ids.size());
      const int bits = IndexBits(static_cast<uint32_t>(batch_.list_count()));
      for (const uint32_t list : batch_.lists) out_.Put(list, bits);
    }
    for (size_t l = 0; l < batch_.list_count(); ++l) out_.Put(batch_.list(l).size(), kCountBits);
  }

  bool Feature(const FeatureView& feature, uint32_t& seen) {
    const bool weighted = IsWeighted(feature.weights);
    out_.Put(weighted ? 1 : 0, 1);
    Lengths(feature.offsets);
    if (!(seen == 0 ? Own(feature.occurrences, seen) : Shared(feature, seen))) return false;
    if (!weighted) return true;
    for (const float weight : feature.weights) {
      out_.Put(std::bit_cast<uint32_t>(weight), kWeightBits);
    }
    return true;
  }

  void Lengths(std::span<const uint32_t> offsets) {
    const size_t samples = offsets.size() - 1;
    uint32_t most = 0;
    for (size_t b = 0; b < samples; ++b) most = std::max(most, offsets[b + 1] - offsets[b]);
    const auto all_most = [&offsets, most](size_t first, size_t end) {
      return offsets[end] - offsets[first] == uint64_t{most} * (end - first);
    };
    out_.Put(most, kCountBits);
    out_.Put(all_most(0, samples) ? 1 : 0, 1);
    if (all_most(0, samples)) return;
    for (size_t first = 0; first < samples; first += kLengthGroup) {
      const size_t end = std::min(first + kLengthGroup, samples);
      out_.Put(all_most(first, end) ? 1 : 0, 1);
      for (size_t b = first; !all_most(first, end) && b < end; ++b) {
        out_.Put(offsets[b + 1] - offsets[b], std::bit_width(most));
      }
    }
  }

  // Writes occurrences of the first feature of a list. Returns whether they are in order.
  bool Own(std::span<const uint32_t> occurrences, uint32_t& seen) {
    BitWriter out = out_;
    uint32_t next = 0;
    int width = 0;
    bool in_order = true;
    for (size_t i = 0; i < occurrences.size();) {
      uint64_t value = 0;
      int bits = 0;
      // Two at once, because each Put waits for the previous one.
      for (const size_t end = std::min(i + 2, occurrences.size()); i < end; ++i) {
        const uint32_t index = occurrences[i];
        const bool is_new = index == next;
        in_order &= index <= next;
        value |= (is_new ? 1 : uint64_t{index} << 1) << bits;
        bits += is_new ? 1 : 1 + width;
        width = is_new ? std::bit_width(next) : width;
        next += is_new ? 1 : 0;
      }
      out.Put(value, bits);
    }
    out_ = out;
    seen = next;
    return in_order;
  }

  // Writes occurrences of a later feature of a list. Returns whether they are in order.
  bool Shared(const FeatureView& feature, uint32_t& seen) {
    BitWriter out = out_;
    const uint32_t before = appearances_;
    const int earlier_bits = IndexBits(seen);
    for (const uint32_t id : feature.occurrences) {
      uint32_t& appeared = appeared_[feature.first_id + id];
      if (appeared > before) {
        const uint64_t index = appeared - before - 1;
        out.Put(index << 1, 1 + IndexBits(appearances_ - before));
        continue;
      }
      if (id > seen) return false;
      appeared = ++appearances_;
      if (id == seen) {
        out.Put(0b11, 2);
        ++seen;
      } else {
        out.Put(uint64_t{id} << 2 | 0b01, 2 + earlier_bits);
      }
    }
    out_ = out;
    return true;
  }

  const CompactBatch& batch_;
  const bool is_weighted_;
  std::vector<uint32_t> seen_;  // Number of ids that have appeared, one per list.
  // The value of appearances_ at the first appearance of each id in a feature. The count continues
  // over all features, so that values of earlier ones are smaller.
  std::vector<uint32_t> appeared_;
  uint32_t appearances_ = 0;
  std::unique_ptr<std::byte[]> bytes_;
  BitWriter out_;
};

struct Head {
  size_t samples = 0;
  size_t features = 0;
  size_t lists = 0;
  size_t occurrences = 0;
  bool is_weighted = false;
};

Status Truncated(const BitReader& in, const char* what) {
  return Invalid("truncated after %d bytes, in %s", in.size() / 8, what);
}

StatusOr<Head> ReadHead(const EncodedBatch& encoded, std::optional<size_t> cluster_features,
                        BitReader& in) {
  if (!in.Has(kHeadBits)) return Annotate(Truncated(in, "the head"), "batch");
  if (const uint64_t version = in.Take(kVersionBits); version != kVersion) {
    return Invalid("batch: version %d, known is %d; run the same version of all daemons", version,
                   kVersion);
  }
  Head head;
  head.samples = in.Take(kSampleBits);
  head.features = in.Take(kFeatureBits);
  head.lists = in.Take(kFeatureBits);
  head.occurrences = in.Take(kCountBits);
  head.is_weighted = in.Take(1) != 0;
  if (cluster_features.has_value() && head.features != *cluster_features) {
    return Invalid(
        "the batch has %d features, the cluster has %d; give all daemons the same configuration",
        head.features, *cluster_features);
  }
  if (!in.Has(kFeatureHeadBits * head.features) ||
      !MayHaveCells(head.features, head.samples, encoded.byte_size())) {
    return Invalid("batch: %d features of %d samples exceed %d bytes or the limit of %d cells",
                   head.features, head.samples, encoded.byte_size(), kMaxBatchCells);
  }
  if (head.lists > head.features || (head.lists == 0 && head.features > 0)) {
    return Invalid("batch: %d lists of %d features; expected 1 to %d", head.lists, head.features,
                   head.features);
  }
  if (head.occurrences > kMaxBatchOccurrences || !in.Has(head.occurrences)) {
    return Invalid("batch: %d occurrences exceed the limit of %d, or the %d bits of its codes",
                   head.occurrences, kMaxBatchOccurrences, in.size());
  }
  return head;
}

class BatchDecoder {
 public:
  BatchDecoder(EncodedBatch& encoded, CompactBatch& batch, std::optional<size_t> cluster_features)
      : encoded_(encoded), cluster_features_(cluster_features), in_(encoded.codes), batch_(batch) {}

  Status Decode() {
    const Status decoded = Parts();
    if (decoded.ok()) return decoded;
    return Invalid("%s (at byte %d of %d)", decoded.message(),
                   std::min(in_.position(), in_.size()) / 8, in_.size() / 8);
  }

 private:
  Status Parts() {
    SIMURGH_ASSIGN_OR_RETURN(head_, ReadHead(encoded_, cluster_features_, in_));
    batch_.batch_size = static_cast<uint32_t>(head_.samples);
    batch_.occurrences.resize(head_.occurrences);
    batch_.weights.clear();
    SIMURGH_RETURN_IF_ERROR(Lists());
    batch_.ids.swap(encoded_.plain_ids);
    batch_.offsets.assign(1, 0);
    seen_.resize(head_.lists);
    for (size_t f = 0; f < head_.features; ++f) {
      const Status decoded = Feature(f);
      if (!decoded.ok()) return Annotate(decoded, absl::StrFormat("batch: feature %d", f));
    }
    return End();
  }

  Status Lists() {
    batch_.lists.clear();
    if (head_.lists < head_.features) {
      batch_.lists.resize(head_.features);
      const int bits = IndexBits(static_cast<uint32_t>(head_.lists));
      uint32_t used = 0;
      for (size_t f = 0; f < head_.features; ++f) {
        const auto list = static_cast<uint32_t>(in_.Take(bits));
        if (list > used || list >= head_.lists) {
          return Invalid("batch: feature %d: list %d of %d, expected at most %d", f, list,
                         head_.lists, used);
        }
        if (list == used) ++used;
        batch_.lists[f] = list;
      }
      if (used < head_.lists) {
        return Invalid("batch: %d lists, of which %d have a feature", head_.lists, used);
      }
    }
    uint64_t ids = 0;
    batch_.unique_ends.resize(head_.lists);
    for (uint32_t& end : batch_.unique_ends) {
      ids += in_.Take(kCountBits);
      end = static_cast<uint32_t>(ids);
    }
    if (!in_.Has(0)) return Annotate(Truncated(in_, "the lists"), "batch");
    if (ids != encoded_.plain_ids.size()) {
      return Invalid("batch: %d ids, expected %d", encoded_.plain_ids.size(), ids);
    }
    return absl::OkStatus();
  }

  Status Feature(size_t feature) {
    const bool weighted = in_.Take(1) != 0;
    if (weighted && !head_.is_weighted) {
      return absl::InvalidArgumentError("weights are not announced in the head");
    }
    // The capacity grows with the data that arrived, so that a head alone cannot allocate much.
    const size_t first = batch_.offsets.size() - 1;
    const size_t end = first + head_.samples + 1;
    if (end > batch_.offsets.capacity()) {
      const size_t most = head_.features * head_.samples + 1;
      batch_.offsets.reserve(std::min(most, std::max(end, 2 * batch_.offsets.capacity())));
    }
    batch_.offsets.resize(end);
    const std::span<uint32_t> offsets = std::span(batch_.offsets).subspan(first);
    SIMURGH_RETURN_IF_ERROR(Lengths(offsets));
    const auto occurrences =
        std::span(batch_.occurrences).subspan(offsets.front(), offsets.back() - offsets.front());
    uint32_t& seen = seen_[batch_.list_of(feature)];
    if (!(seen == 0 ? Own(occurrences, seen) : Shared(occurrences, seen))) {
      return absl::InvalidArgumentError("an occurrence of an id before its first appearance");
    }
    if (weighted) batch_.weights.resize(head_.occurrences, 1.0F);
    for (size_t i = offsets.front(); weighted && i < offsets.back(); ++i) {
      batch_.weights[i] = std::bit_cast<float>(static_cast<uint32_t>(in_.Take(kWeightBits)));
      if (!std::isfinite(batch_.weights[i])) {
        return Invalid("the weight of occurrence %d is not finite", i - offsets.front());
      }
    }
    return in_.Has(0) ? absl::OkStatus() : Truncated(in_, "its occurrences or weights");
  }

  Status Lengths(std::span<uint32_t> offsets) {
    BitReader in = in_;
    const uint64_t most = in.Take(kCountBits);
    const int width = std::bit_width(most);
    const bool all_most = in.Take(1) != 0;
    const size_t samples = offsets.size() - 1;
    uint64_t total = offsets[0];
    for (size_t b = 0; b < samples;) {
      const size_t end = std::min(b + kLengthGroup, samples);
      const bool group_most = all_most || in.Take(1) != 0;
      for (; b < end; ++b) {
        total += group_most ? most : in.Take(width);
        offsets[b + 1] = static_cast<uint32_t>(total);
      }
    }
    in_ = in;
    if (!in_.Has(0)) return Truncated(in_, "the lengths of samples");
    if (total <= head_.occurrences) return absl::OkStatus();
    return Invalid("%d ids so far, expected at most %d", total, head_.occurrences);
  }

  // Reads occurrences of the first feature of a list. Returns whether they are valid.
  bool Own(std::span<uint32_t> occurrences, uint32_t& seen) {
    BitReader in = in_;
    uint32_t next = 0;
    int width = 0;
    bool in_order = true;
    for (uint32_t& occurrence : occurrences) {
      const uint64_t bits = in.Peek();
      const bool is_new = (bits & 1) != 0;
      const auto index = static_cast<uint32_t>((bits >> 1) & LowBits(width));
      in.Skip(is_new ? 1 : 1 + width);
      occurrence = is_new ? next : index;
      in_order &= is_new || index < next;
      width = is_new ? std::bit_width(next) : width;
      next += is_new ? 1 : 0;
    }
    in_ = in;
    seen = next;
    return in_order;
  }

  // Reads occurrences of a later feature of a list. Returns whether they are valid.
  bool Shared(std::span<uint32_t> occurrences, uint32_t& seen) {
    BitReader in = in_;
    const uint32_t earlier = seen;
    ids_.clear();
    for (uint32_t& occurrence : occurrences) {
      const uint64_t is_new = in.Take(1);
      if (is_new == 0) {
        const auto index =
            in.Take(ids_.empty() ? 0 : IndexBits(static_cast<uint32_t>(ids_.size())));
        if (index >= ids_.size()) return false;
        occurrence = ids_[index];
        continue;
      }
      const bool is_next = in.Take(1) != 0;
      occurrence = is_next ? seen++ : static_cast<uint32_t>(in.Take(IndexBits(earlier)));
      if (!is_next && occurrence >= earlier) return false;
      ids_.push_back(occurrence);
    }
    in_ = in;
    return true;
  }

  Status End() {
    if (batch_.offsets.back() != head_.occurrences) {
      return Invalid("batch: %d ids, expected %d", batch_.offsets.back(), head_.occurrences);
    }
    SIMURGH_RETURN_IF_ERROR(CheckAllOccur(batch_, seen_));
    const uint64_t left = in_.size() - in_.position();
    if (left >= 8) return Invalid("batch: %d extra bytes", left / 8);
    const bool zeros = in_.Take(static_cast<int>(left)) == 0;
    return zeros ? absl::OkStatus() : Invalid("batch: the last %d bits must be zeros", left);
  }

  EncodedBatch& encoded_;
  const std::optional<size_t> cluster_features_;
  BitReader in_;
  CompactBatch& batch_;
  Head head_;
  std::vector<uint32_t> seen_;  // Number of ids that have appeared, one per list.
  std::vector<uint32_t> ids_;   // Index in the feature -> the id's number in the list.
};

}  // namespace

StatusOr<EncodedBatch> EncodeBatch(const CompactBatch& batch) {
  SIMURGH_RETURN_IF_ERROR(batch.Validate());
  SIMURGH_ASSIGN_OR_RETURN(EncodedBatch encoded, BatchEncoder(batch).Encode());
  if (!MayHaveCells(batch.feature_count(), batch.batch_size, encoded.byte_size())) {
    return Invalid(
        "batch: %d features of %d samples are too many cells for %d bytes of ids; choose a smaller "
        "batch size",
        batch.feature_count(), batch.batch_size, encoded.byte_size());
  }
  return encoded;
}

size_t BatchSizes::bytes() const {
  return ids * sizeof(uint64_t) + (occurrences + offsets + unique_ends + lists) * sizeof(uint32_t) +
         weights * sizeof(float);
}

StatusOr<BatchSizes> DecodedSizes(const EncodedBatch& encoded,
                                  std::optional<size_t> cluster_features) {
  BitReader in(encoded.codes);
  SIMURGH_ASSIGN_OR_RETURN(const Head head, ReadHead(encoded, cluster_features, in));
  return BatchSizes{.ids = encoded.plain_ids.size(),
                    .occurrences = head.occurrences,
                    .offsets = head.features * head.samples + 1,
                    .unique_ends = head.lists,
                    .lists = head.lists < head.features ? head.features : 0,
                    .weights = head.is_weighted ? head.occurrences : 0};
}

Status DecodeBatch(EncodedBatch& encoded, CompactBatch& batch,
                   std::optional<size_t> cluster_features) {
  return BatchDecoder(encoded, batch, cluster_features).Decode();
}

StatusOr<CompactBatch> DecodeBatch(EncodedBatch encoded, std::optional<size_t> cluster_features) {
  CompactBatch batch;
  SIMURGH_RETURN_IF_ERROR(DecodeBatch(encoded, batch, cluster_features));
  return batch;
}

}  // namespace simurgh
