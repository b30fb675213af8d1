#pragma once

#include <memory>
#include <sstream>
#include <string>

#include <spdlog/sinks/ostream_sink.h>

#include "base/log.h"

namespace simurgh::testing {

// Log lines during its lifetime.
class LogLines {
 public:
  LogLines() {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "", std::make_shared<spdlog::sinks::ostream_sink_mt>(stream_)));
    spdlog::set_pattern("%l: %v");
  }
  ~LogLines() { spdlog::set_default_logger(before_); }

  std::string text() const { return stream_.str(); }

 private:
  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
  std::ostringstream stream_;
};

}  // namespace simurgh::testing
