#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "simurgh/base/hash.h"
#include "simurgh/config/table_config.h"

namespace simurgh {

// Decides whether a training pull may make a row for an id that has none. What it decides depends
// on seed, table, id and the id's bucket alone: an id's answer is the same however many servers
// share the buckets.
//
//   always       every id
//   probability  a fixed share of all ids, for ever the same ones
//   occurrences  an id that has been asked for so often, counted by a count-min sketch for each of
//                the 65,536 buckets: an estimate that is never too low, until a sketch has counted
//                kAgeAfter times its width and all its counters are halved
//
// Source: Cormode and Muthukrishnan, "An improved data stream summary: the count-min sketch",
// J. Algorithms 55(1), 2005; halving as in TinyLFU (Einziger et al., ACM TOS 13(4), 2017).
// Threads: one owner.
class Admission {
 public:
  Admission(const AdmissionConfig& config, std::string_view table, uint64_t seed);

  // Counts this request for the id, and answers. Allocates for the first id of a bucket only.
  bool Admit(uint64_t id);

  // Whether Admit(id) would allocate.
  bool NeedsSketch(uint64_t id) const {
    return config_.kind == AdmissionConfig::Kind::kOccurrences &&
           (GroupOf(id) == nullptr || SketchOf(id).counters == nullptr);
  }
  // Memory of one bucket's.
  uint64_t sketch_bytes() const { return counters() + sizeof(Sketch); }

  // Whether it admits every id, and counts nothing.
  bool always() const { return config_.kind == AdmissionConfig::Kind::kAlways; }

  // Memory of the sketches.
  uint64_t bytes_used() const;

 private:
  static constexpr uint32_t kGroups = 256;
  static constexpr uint32_t kBucketsPerGroup = 256;
  static constexpr uint32_t kRows = 4;  // Hash functions of a sketch.
  static constexpr uint32_t kAgeAfter = 8;

  struct Sketch {
    uint32_t counted = 0;
    std::unique_ptr<uint8_t[]> counters;  // kRows times the width.
  };

  // Consecutive buckets, which mostly belong to one partition: the others' cost nothing.
  using Group = std::array<Sketch, kBucketsPerGroup>;

  // The top bits of Mix64(id) are its bucket, as in the bucket map.
  const std::unique_ptr<Group>& GroupOf(uint64_t id) const { return groups_[Mix64(id) >> 56]; }
  Sketch& SketchOf(uint64_t id) const {
    return (*GroupOf(id))[(Mix64(id) >> 48) % kBucketsPerGroup];
  }
  uint64_t counters() const { return uint64_t{kRows} * config_.sketch_width; }  // Of a sketch.
  bool CountedEnough(uint64_t id);
  void Age(Sketch& sketch) const;

  AdmissionConfig config_;
  uint64_t seed_;
  uint64_t threshold_ = 0;                      // probability: hashes below it are admitted.
  std::vector<std::unique_ptr<Group>> groups_;  // occurrences.
  uint64_t groups_in_use_ = 0;
  uint64_t sketches_in_use_ = 0;
};

}  // namespace simurgh
