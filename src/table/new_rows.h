#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "config/table_config.h"
#include "model/tensor_file.h"
#include "table/simd/pull_rows.h"

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

  // Returns whether Admit(id) would allocate.
  bool NeedsSketch(uint64_t id) const {
    return config_.kind == Kind::kOccurrences && Find(BucketOf(id)) == nullptr;
  }
  // Memory of one sketch.
  uint64_t sketch_bytes() const { return counters() + sizeof(Sketch); }

  // Returns whether every id is admitted and nothing is counted.
  bool always() const { return config_.kind == Kind::kAlways; }

  // Memory of all sketches.
  uint64_t bytes_used() const { return BytesFor(config_, groups_in_use_, sketches_in_use_); }
  // The same for this many sketches, in this many of the groups of 256 buckets.
  static uint64_t BytesFor(const AdmissionConfig& config, uint64_t groups, uint64_t sketches);
  static constexpr uint32_t kBucketsPerGroup = 256;

  // The sketches of a file: the buckets in ascending order, what each has counted, and its
  // counters. Empty but for occurrences.
  static std::vector<TensorSpec> FileTensors(const AdmissionConfig& config, uint64_t sketches);
  uint64_t sketches() const { return sketches_in_use_; }
  // Appends the sketches to the parts of FileTensors().
  void Copy(std::span<std::vector<std::byte>> parts) const;
  // Puts the sketches of the buckets that `owns` names back. parts: whole rows of FileTensors().
  // Errors: DATA_LOSS for a sketch that cannot have counted so much. The sketches before it stay.
  Status Put(std::span<const std::span<const std::byte>> parts,
             absl::FunctionRef<bool(uint16_t bucket)> owns);

 private:
  using Kind = AdmissionConfig::Kind;

  static constexpr uint32_t kGroups = 256;
  static constexpr uint32_t kRows = 4;  // Hash functions of a sketch.
  static constexpr uint32_t kAgeAfter = 8;

  struct Sketch {
    uint32_t counted = 0;
    std::unique_ptr<uint8_t[]> counters;  // kRows times the width.
  };

  // Consecutive buckets mostly belong to one partition, so groups of other partitions stay null.
  using Group = std::array<Sketch, kBucketsPerGroup>;

  // Returns the bucket of an id. The bucket map uses the same function.
  static uint16_t BucketOf(uint64_t id) { return static_cast<uint16_t>(Mix64(id) >> 48); }
  // Null before the bucket's first occurrence.
  const Sketch* Find(uint16_t bucket) const {
    const std::unique_ptr<Group>& group = groups_[bucket / kBucketsPerGroup];
    if (group == nullptr) return nullptr;
    const Sketch& sketch = (*group)[bucket % kBucketsPerGroup];
    return sketch.counters == nullptr ? nullptr : &sketch;
  }
  Sketch& FindOrCreate(uint16_t bucket);
  uint64_t counters() const { return uint64_t{kRows} * config_.sketch_width; }  // Per sketch.

  AdmissionConfig config_;
  uint64_t seed_;
  uint64_t threshold_ = 0;                      // probability: largest admitted hash.
  std::vector<std::unique_ptr<Group>> groups_;  // occurrences.
  uint64_t groups_in_use_ = 0;
  uint64_t sketches_in_use_ = 0;
};

// Draws the initial weights of rows. They depend only on seed, table name, id and position, not on
// the order of requests or the number of servers.
//
// Threads: any; immutable.
class Initializer {
 public:
  Initializer(const InitializerConfig& config, std::string_view table, uint32_t dim, uint64_t seed);

  struct NewWeights {
    uint64_t id;
    float* weights;
  };

  // Overwrites D weights of each row.
  // Cost per weight: uniform half a 64-bit draw, normal a logarithm and a cosine, gamma somewhat
  // more, poisson `rate` draws.
  void Fill(std::span<const NewWeights> rows) const;

 private:
  double Draw(Random& random) const;

  InitializerConfig config_;
  uint32_t dim_;
  uint64_t table_seed_;
  UniformRange range_;
};

}  // namespace simurgh
