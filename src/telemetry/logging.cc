#include "simurgh/telemetry/logging.h"

#include <memory>
#include <optional>
#include <string>

#include <spdlog/sinks/stdout_sinks.h>

#include "absl/strings/str_cat.h"

#include "simurgh/base/log.h"
#include "telemetry/log_format.h"

namespace simurgh {
namespace {

std::optional<spdlog::level::level_enum> ParseLevel(std::string_view name) {
  if (name == "trace") return spdlog::level::trace;
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  if (name == "warn") return spdlog::level::warn;
  if (name == "error") return spdlog::level::err;
  if (name == "off") return spdlog::level::off;
  return std::nullopt;
}

}  // namespace

Status InitLogging(std::string_view service, std::string_view level) {
  const auto parsed = ParseLevel(level);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("log level '", absl::string_view(level.data(), level.size()),
                     "' is unknown; use trace, debug, info, warn, error or off"));
  }
  auto logger = std::make_shared<spdlog::logger>(std::string(service),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(internal::MakeLogFormatter());
  logger->set_level(*parsed);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace simurgh
