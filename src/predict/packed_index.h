#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/aligned_buffer.h"
#include "base/hash.h"
#include "base/status.h"

namespace simurgh {

// Maps distinct ids, which do not change, to rows. Takes some 6.5 bytes an id, and 4 more if rows
// are not in the order of the index.
//
// The upper bits of an id's hash, a bijection, are its bucket. Buckets have some 4 to 16 entries,
// one after the other. An entry has the other bits of the hash, which with the bucket give the id.
//
// Threads: one owner while it is filled, then any.
class PackedIndex {
 public:
  static constexpr uint64_t kMaxIds = 0xffff'fff0;
  static constexpr uint32_t kAbsent = 0xffff'ffff;

  PackedIndex() = default;
  // about: expected number of ids; decides the memory, not the results. has_rows: entries have the
  // numbers of rows; else a row is the position of its id. Throws std::bad_alloc, here and below.
  PackedIndex(uint64_t about, bool has_rows);

  static uint64_t BytesOf(uint64_t ids, bool has_rows);

  // The three steps of filling it. First all ids are counted, in any pieces and order.
  void Count(std::span<const uint64_t> ids);
  void EndCount();
  // Then the same ids are added. rows: their rows; without has_rows they are set to the positions.
  // Errors: DATA_LOSS for more ids than were counted.
  Status Add(std::span<const uint64_t> ids, std::span<uint32_t> rows);
  // Errors: DATA_LOSS for an id that occurs twice, or fewer ids than were counted.
  Status EndAdd();

  uint64_t size() const { return size_; }
  uint64_t bytes() const { return starts_.size() + entries_.size(); }

  // Finds rows. rows[i]: the row of ids[i], or kAbsent. on_found: called with each row found, to
  // prefetch it.
  template <typename OnFound>
  void Find(std::span<const uint64_t> ids, std::span<uint32_t> rows, OnFound on_found) const;

  // Calls visit(ids, rows) with pieces of all ids.
  template <typename Visit>
  void ForEachPiece(Visit visit) const;

 private:
  static constexpr size_t kAhead = 32;  // Searches under way at once.
  static constexpr size_t kLine = 64;
  static constexpr size_t kRowBytes = sizeof(uint32_t);

  // Differs from the hash that places ids on servers: its top bits are nearly equal on one of them.
  static uint64_t Hash(uint64_t id) { return Mix64(id + kSalt); }
  static uint64_t IdOf(uint64_t hash) { return Unmix64(hash) - kSalt; }
  static constexpr uint64_t kSalt = 0x9fb21c651e98df25ULL;

  uint64_t BucketOf(uint64_t hash) const { return bits_ == 0 ? 0 : hash >> (64 - bits_); }
  std::span<uint32_t> starts() const { return starts_.as<uint32_t>(buckets() + 2); }
  uint64_t buckets() const { return uint64_t{1} << bits_; }
  const std::byte* entry(uint64_t position) const { return entries_.data() + position * stride_; }
  std::byte* entry(uint64_t position) { return entries_.data() + position * stride_; }
  // The rest of the hash in an entry.
  uint64_t RestAt(const std::byte* entry) const {
    uint64_t rest;
    std::memcpy(&rest, entry, sizeof(rest));
    return rest & mask_;
  }
  uint32_t RowAt(uint64_t position) const {
    if (!has_rows_) return static_cast<uint32_t>(position);
    uint32_t row;
    std::memcpy(&row, entry(position) + stride_ - kRowBytes, sizeof(row));
    return row;
  }

  uint32_t bits_ = 0;  // Upper bits of the hash that are the bucket.
  bool has_rows_ = false;
  size_t stride_ = 0;
  uint64_t mask_ = 0;  // Selects the rest of the hash.
  uint64_t size_ = 0;
  uint64_t added_ = 0;
  // Begin of each bucket, and the end of the last one. One more while it is filled.
  AlignedBuffer starts_;
  AlignedBuffer entries_;
};

template <typename OnFound>
void PackedIndex::Find(std::span<const uint64_t> ids, std::span<uint32_t> rows,
                       OnFound on_found) const {
  if (size_ == 0) {
    std::ranges::fill(rows.first(ids.size()), kAbsent);
    return;
  }
  const std::span<const uint32_t> starts = this->starts();
  uint64_t hashes[kAhead];
  for (size_t first = 0; first < ids.size(); first += kAhead) {
    const size_t count = std::min(kAhead, ids.size() - first);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = Hash(ids[first + i]);
      __builtin_prefetch(&starts[BucketOf(hashes[i])]);
    }
    for (size_t i = 0; i < count; ++i) {
      const std::byte* const begin = entry(starts[BucketOf(hashes[i])]);
      __builtin_prefetch(begin);
      __builtin_prefetch(begin + kLine);
    }
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bucket = BucketOf(hashes[i]);
      const uint64_t rest = hashes[i] & mask_;
      uint32_t& row = rows[first + i] = kAbsent;
      const uint64_t end = starts[bucket + 1];
      const std::byte* at = entry(starts[bucket]);
      for (uint64_t position = starts[bucket]; position < end; ++position, at += stride_) {
        if (RestAt(at) != rest) continue;
        row = RowAt(position);
        on_found(row);
        break;
      }
    }
  }
}

template <typename Visit>
void PackedIndex::ForEachPiece(Visit visit) const {
  constexpr size_t kPiece = 1'024;
  uint64_t ids[kPiece];
  uint32_t rows[kPiece];
  size_t count = 0;
  const auto flush = [&] {
    if (count > 0)
      visit(std::span<const uint64_t>(ids, count), std::span<const uint32_t>(rows, count));
    count = 0;
  };
  if (size_ == 0) return;
  const std::span<const uint32_t> starts = this->starts();
  for (uint64_t bucket = 0; bucket < buckets(); ++bucket) {
    const uint64_t upper = bits_ == 0 ? 0 : bucket << (64 - bits_);
    for (uint64_t position = starts[bucket]; position < starts[bucket + 1]; ++position) {
      ids[count] = IdOf(upper | RestAt(entry(position)));
      rows[count] = RowAt(position);
      if (++count == kPiece) flush();
    }
  }
  flush();
}

}  // namespace simurgh
