#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "serve/version_rows.h"

namespace simurgh {

// The ids whose rows differ between a version and some of those before it.
//
// Threads: immutable.
class RowChanges {
 public:
  // Those of the version that follows `before` with these changes. Forgets the oldest ones.
  RowChanges With(uint64_t before, ChangedIds ids) const {
    RowChanges next;
    size_t count = Count(ids);
    next.steps_.push_back(std::make_shared<const Step>(before, std::move(ids)));
    for (const auto& step : steps_) {
      count += Count(step->ids);
      if (next.steps_.size() == kMaxSteps || count > kMaxIds) break;
      next.steps_.push_back(step);
    }
    return next;
  }

  // Calls drop(table, id) for each id that has changed since a version. Returns false, without a
  // call, if that is not known.
  bool Since(uint64_t checksum, absl::FunctionRef<void(uint32_t table, uint64_t id)> drop) const {
    size_t steps = 0;
    while (steps < steps_.size() && steps_[steps]->before != checksum) ++steps;
    if (steps == steps_.size()) return false;
    for (size_t i = 0; i <= steps; ++i) {
      for (uint32_t table = 0; table < steps_[i]->ids.size(); ++table) {
        for (const uint64_t id : steps_[i]->ids[table]) drop(table, id);
      }
    }
    return true;
  }

 private:
  struct Step {
    Step(uint64_t checksum, ChangedIds changed) : before(checksum), ids(std::move(changed)) {}

    uint64_t before;  // Checksum of the version that the ids change.
    ChangedIds ids;
  };
  // A predictor that scores rarely misses some versions.
  static constexpr size_t kMaxSteps = 16;
  static constexpr size_t kMaxIds = 1'000'000;

  static size_t Count(const ChangedIds& ids) {
    size_t count = 0;
    for (const auto& of_table : ids) count += of_table.size();
    return count;
  }

  std::vector<std::shared_ptr<const Step>> steps_;  // The newest first.
};

}  // namespace simurgh
