#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh::cuda {

// A host copy of floats on the device, copied in either direction when out of date.
//
// Threads: one owner.
class HostMirror {
 public:
  HostMirror() = default;
  explicit HostMirror(std::span<float> device) : device_(device.data()), values_(device.size()) {}

  // Marks the host's values as out of date.
  void DeviceChanged() {
    is_old_ = true;
    is_written_ = false;
  }

  // Copies the values from the device if out of date. written: the caller may change them.
  template <typename Executor>
  Status Read(Executor& executor, bool written) {
    if (is_old_ && !values_.empty()) {
      executor.ToHost(values_.data(), device_, values_.size() * sizeof(float));
      SIMURGH_RETURN_IF_ERROR(executor.Synchronize());
    }
    is_old_ = false;
    is_written_ = is_written_ || written;
    return absl::OkStatus();
  }

  // Copies changed values to the device. Call before the device uses them.
  template <typename Executor>
  void Send(Executor& executor) {
    if (is_written_ && !values_.empty()) {
      executor.ToDevice(device_, values_.data(), values_.size() * sizeof(float));
    }
    is_written_ = false;
  }

  std::span<float> values() { return values_; }

 private:
  float* device_ = nullptr;
  std::vector<float> values_;
  bool is_old_ = true;
  bool is_written_ = false;
};

}  // namespace simurgh::cuda
