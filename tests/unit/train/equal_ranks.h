#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "collective/collective.h"

namespace simurgh::testing {

// The first of two ranks, of which the other one does the same.
class EqualRanks : public Collective {
 public:
  uint32_t rank() const override { return 0; }
  uint32_t ranks() const override { return 2; }
  Status Sum(Channel /*channel*/, std::span<float> values, ReducePrecision /*precision*/,
             std::span<float> /*residual*/, absl::FunctionRef<void()> meanwhile) override {
    meanwhile();
    for (float& value : values) value *= 2;
    return absl::OkStatus();
  }
  Status Sum(Channel /*channel*/, std::span<double> values) override {
    for (double& value : values) value *= 2;
    return absl::OkStatus();
  }
  Status Gather(Channel /*channel*/, std::span<const std::byte> own,
                std::span<std::byte> all) override {
    std::ranges::copy(own, all.begin());
    std::ranges::copy(own, all.begin() + static_cast<ptrdiff_t>(own.size()));
    return absl::OkStatus();
  }
  void Close(Channel /*channel*/) override {}
  void Abort(const Status& /*reason*/) override {}
};

}  // namespace simurgh::testing
