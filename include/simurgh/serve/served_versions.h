#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simurgh/serve/model_version.h"

namespace simurgh {

// The versions of a model that answer requests: the newest, and the one before it.
//
// Threads: any.
class ServedVersions {
 public:
  virtual ~ServedVersions() = default;

  // Null before the first version is loaded.
  virtual std::shared_ptr<const ModelVersion> Current() const = 0;
  // Null if this step is not loaded.
  virtual std::shared_ptr<const ModelVersion> Find(uint64_t step) const = 0;
  virtual std::vector<uint64_t> Steps() const = 0;
  // Why there is no version, or none that is new enough; empty if ready.
  virtual std::string Problem() const = 0;
};

}  // namespace simurgh
