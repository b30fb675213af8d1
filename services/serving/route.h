#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace simurgh {

// What a request is about.
struct Route {
  enum class Kind {
    kUnknown,
    kServer,       // /v2
    kLive,         // /v2/health/live
    kReady,        // /v2/health/ready
    kModel,        // /v2/models/NAME[/versions/N]
    kModelReady,   // ... /ready
    kModelConfig,  // ... /config
    kInfer,        // ... /infer
    kStatus,       // /v1/models/NAME[/versions/N]
    kPredict,      // ... :predict
  };

  Kind kind = Kind::kUnknown;
  std::string model;
  std::optional<uint64_t> step;

  bool posts() const { return kind == Kind::kInfer || kind == Kind::kPredict; }
  // For metrics.
  const char* name() const;
};

// target: with or without a query.
Route ParseRoute(std::string_view target);

}  // namespace simurgh
