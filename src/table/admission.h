#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "simurgh/base/hash.h"
#include "simurgh/config/table_config.h"

namespace simurgh {

// Decides whether a training pull creates a row for an id without one. The decision depends on
// seed, table, id and the earlier ids of the same bucket, so it does not depend on the number of
// servers.
//
//   always       admits every id
//   probability  admits a fixed pseudo-random share of all ids
//   occurrences  admits an id at its n-th occurrence, counted in one count-min sketch per bucket of
//                the 65,536. A sketch never underestimates until it has counted kAgeAfter times its
//                width and halves its counters
//
// Source: Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch",
// J. Algorithms 55(1), 2005; halving as in TinyLFU (Einziger et al., ACM TOS 13(4), 2017).
// Threads: one owner.
class Admission {
 public:
  Admission(const AdmissionConfig& config, std::string_view table, uint64_t seed);

  // Counts the occurrence and decides. Allocates only for the first id of a bucket.
  bool Admit(uint64_t id);

  // Whether Admit(id) would allocate.
  bool NeedsSketch(uint64_t id) const {
    return config_.kind == Kind::kOccurrences &&
           (GroupOf(id) == nullptr || SketchOf(id).counters == nullptr);
  }
  // Memory of one sketch.
  uint64_t sketch_bytes() const { return counters() + sizeof(Sketch); }

  // Whether every id is admitted and nothing is counted.
  bool always() const { return config_.kind == Kind::kAlways; }

  // Memory of all sketches.
  uint64_t bytes_used() const;

 private:
  using Kind = AdmissionConfig::Kind;

  static constexpr uint32_t kGroups = 256;
  static constexpr uint32_t kBucketsPerGroup = 256;
  static constexpr uint32_t kRows = 4;  // Hash functions of a sketch.
  static constexpr uint32_t kAgeAfter = 8;

  struct Sketch {
    uint32_t counted = 0;
    std::unique_ptr<uint8_t[]> counters;  // kRows times the width.
  };

  // Consecutive buckets mostly belong to one partition, so groups of other partitions stay null.
  using Group = std::array<Sketch, kBucketsPerGroup>;

  // The top bits of Mix64(id) are its bucket, as in the bucket map.
  const std::unique_ptr<Group>& GroupOf(uint64_t id) const { return groups_[Mix64(id) >> 56]; }
  Sketch& SketchOf(uint64_t id) const {
    return (*GroupOf(id))[(Mix64(id) >> 48) % kBucketsPerGroup];
  }
  uint64_t counters() const { return uint64_t{kRows} * config_.sketch_width; }  // Per sketch.

  AdmissionConfig config_;
  uint64_t seed_;
  uint64_t threshold_ = 0;                      // probability: largest admitted hash.
  std::vector<std::unique_ptr<Group>> groups_;  // occurrences.
  uint64_t groups_in_use_ = 0;
  uint64_t sketches_in_use_ = 0;
};

}  // namespace simurgh
