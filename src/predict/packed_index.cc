#include "predict/packed_index.h"

#include <limits>

#include "absl/strings/str_cat.h"

#include "predict/huge_buffer.h"

namespace simurgh {
namespace {

// Entries are read in words.
constexpr size_t kPadding = sizeof(uint64_t);

uint64_t RestBytes(uint32_t bits) { return (64 - bits + 7) / 8; }

uint64_t StartBytes(uint32_t bits) { return ((uint64_t{1} << bits) + 2) * sizeof(uint32_t); }

// Returns the number of bits of a bucket that needs the fewest bytes.
uint32_t BitsFor(uint64_t ids) {
  constexpr uint64_t kMost = 16;  // Entries of a bucket, on average.
  constexpr uint64_t kLeast = 4;
  uint32_t best = 0;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  for (uint32_t bits = 0; bits < 31; ++bits) {
    if (ids >> bits > kMost) continue;
    if (bits > 0 && ids >> bits < kLeast) break;
    const uint64_t bytes = ids * RestBytes(bits) + StartBytes(bits);
    if (bytes >= least) continue;
    best = bits;
    least = bytes;
  }
  return best;
}

}  // namespace

PackedIndex::PackedIndex(uint64_t about, bool has_rows)
    : bits_(BitsFor(about)),
      has_rows_(has_rows),
      stride_(RestBytes(bits_) + (has_rows ? kRowBytes : 0)),
      mask_(bits_ == 0 ? ~uint64_t{0} : ~uint64_t{0} >> bits_),
      starts_(HugeBuffer(StartBytes(bits_))) {
  std::ranges::fill(starts(), 0);
}

uint64_t PackedIndex::BytesOf(uint64_t ids, bool has_rows) {
  if (ids == 0) return 0;
  const uint32_t bits = BitsFor(ids);
  return ids * (RestBytes(bits) + (has_rows ? kRowBytes : 0)) + StartBytes(bits) + kPadding;
}

void PackedIndex::Count(std::span<const uint64_t> ids) {
  // Two places further: Add() moves the begin of a bucket to its end.
  const std::span<uint32_t> counts = starts().subspan(2);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i + kAhead < ids.size()) __builtin_prefetch(&counts[BucketOf(Hash(ids[i + kAhead]))], 1);
    ++counts[BucketOf(Hash(ids[i]))];
  }
  size_ += ids.size();
}

void PackedIndex::EndCount() {
  uint32_t sum = 0;
  for (uint32_t& start : starts()) start = sum += start;
  entries_ = HugeBuffer(size_ * stride_ + kPadding);
  std::memset(entries_.data() + size_ * stride_, 0, kPadding);
}

Status PackedIndex::Add(std::span<const uint64_t> ids, std::span<uint32_t> rows) {
  if (ids.size() > size_ - added_) {
    return absl::DataLossError(
        absl::StrCat("more than ", size_, " ids; use another copy of the model"));
  }
  added_ += ids.size();
  const std::span<uint32_t> next = starts().subspan(1);
  uint64_t hashes[kAhead];
  uint32_t positions[kAhead];
  for (size_t first = 0; first < ids.size(); first += kAhead) {
    const size_t count = std::min(kAhead, ids.size() - first);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = Hash(ids[first + i]);
      __builtin_prefetch(&next[BucketOf(hashes[i])], 1);
    }
    for (size_t i = 0; i < count; ++i) {
      positions[i] = std::min<uint32_t>(next[BucketOf(hashes[i])]++, size_ - 1);
      __builtin_prefetch(entry(positions[i]), 1);
    }
    for (size_t i = 0; i < count; ++i) {
      std::byte* const to = entry(positions[i]);
      const uint64_t rest = hashes[i] & mask_;
      std::memcpy(to, &rest, stride_ - (has_rows_ ? kRowBytes : 0));
      if (has_rows_) {
        std::memcpy(to + stride_ - kRowBytes, &rows[first + i], kRowBytes);
      } else {
        rows[first + i] = positions[i];
      }
    }
  }
  return absl::OkStatus();
}

Status PackedIndex::EndAdd() {
  if (added_ != size_) {
    return absl::DataLossError(absl::StrCat("only ", added_, " of ", size_, " ids"));
  }
  if (size_ == 0) return absl::OkStatus();
  const std::span<const uint32_t> starts = this->starts();
  for (uint64_t bucket = 0; bucket < buckets(); ++bucket) {
    for (uint64_t a = starts[bucket]; a < starts[bucket + 1]; ++a) {
      const uint64_t rest = RestAt(entry(a));
      for (uint64_t b = starts[bucket]; b < a; ++b) {
        if (RestAt(entry(b)) != rest) continue;
        const uint64_t upper = bits_ == 0 ? 0 : bucket << (64 - bits_);
        return absl::DataLossError(absl::StrCat("id ", IdOf(upper | rest), " occurs twice"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
