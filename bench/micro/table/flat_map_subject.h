#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"

#include "bench/micro/table/fetching.h"
#include "bench/micro/table/huge_memory.h"
#include "bench/micro/table/limits.h"
#include "bench/micro/table/subject.h"

namespace simurgh::bench {

// absl::flat_hash_map from id to row number over bare rows, with its best settings: huge pages, an
// index pass that prefetches, and then a row pass that prefetches, each in the fastest way found.
class FlatMapSubject : public Subject {
 public:
  // Requires rows of f32 only. Lifetime: `rows` stays.
  FlatMapSubject(const RowKind& kind, const BareRows& rows) : kind_(kind), rows_(rows) {}

  void Pull(const Batch& batch, float* out) override;
  void Push(const Batch& batch, const float* gradients) override;

  // How far the index pass fetches, how pulls and pushes fetch their rows.
  void set_index_ahead(size_t ids) { index_ahead_ = ids; }
  void set_pull_fetching(Fetching fetching) { pull_fetching_ = fetching; }
  void set_push_fetching(Fetching fetching) { push_fetching_ = fetching; }

 private:
  uint32_t Make(uint64_t id);
  void Find(const Batch& batch, bool make);
  auto PlacesOfFound() const {
    return [place = rows_.places(), found = found_.data()](size_t i) { return place(found[i]); };
  }

  RowKind kind_;
  const BareRows& rows_;
  size_t index_ahead_ = 16;
  Fetching pull_fetching_;
  Fetching push_fetching_;
  absl::flat_hash_map<uint64_t, uint32_t, absl::flat_hash_map<uint64_t, uint32_t>::hasher,
                      std::equal_to<uint64_t>, HugeAllocator<std::pair<const uint64_t, uint32_t>>>
      map_;
  std::vector<uint32_t> found_;
};

}  // namespace simurgh::bench
