#include "telemetry/logging.h"

#include <memory>
#include <optional>
#include <string>

#include <pthread.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/text.h"
#include "telemetry/log_format.h"

namespace simurgh::internal {
namespace {

using Message = spdlog::details::log_msg;

std::string ThreadName(const Message& /*message*/) {
  // The kernel names the main thread after the program and cuts the name at 15 characters.
  if (gettid() == getpid()) return "main";
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof(name));
  return name;
}

std::string LevelName(const Message& message) {
  constexpr const char* kNames[] = {"trace", "debug", "info", "warn", "error", "error", "error"};
  return kNames[message.level];
}

std::string AlignedLevelName(const Message& message) {
  return fmt::format("{:5}", LevelName(message));
}

std::string_view TextOf(const Message& message) {
  return {message.payload.data(), message.payload.size()};
}

std::string Text(const Message& message) { return EscapeControl(TextOf(message)); }

std::string JsonText(const Message& message) {
  std::string text;
  AppendJsonText(TextOf(message), text);
  return text;
}

template <std::string (*kFormat)(const Message&)>
class Flag : public spdlog::custom_flag_formatter {
 public:
  void format(const Message& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const std::string text = kFormat(message);
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Flag>(); }
};

}  // namespace

std::string EscapeControl(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

std::unique_ptr<spdlog::formatter> MakeLogFormatter(bool is_json) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<Flag<ThreadName>>('~');
  if (is_json) {
    formatter->add_flag<Flag<LevelName>>('*');
    formatter->add_flag<Flag<JsonText>>('_');
    // Services and threads have names of this project, which need no escapes.
    formatter->set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%*","service":"%n","thread":"%~","message":%_})");
    return formatter;
  }
  formatter->add_flag<Flag<AlignedLevelName>>('*');
  formatter->add_flag<Flag<Text>>('_');
  formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %* %n %~: %_");
  return formatter;
}

}  // namespace simurgh::internal

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

Status InitLogging(std::string_view service, std::string_view level, std::string_view format) {
  const auto parsed = ParseLevel(level);
  if (!parsed.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--log-level: '", absl::string_view(level.data(), level.size()),
                     "' is unknown; use trace, debug, info, warn, error or off"));
  }
  if (format != "text" && format != "json") {
    return absl::InvalidArgumentError(absl::StrCat("--log-format: '",
                                                   absl::string_view(format.data(), format.size()),
                                                   "' is unknown; use text or json"));
  }
  auto logger = std::make_shared<spdlog::logger>(std::string(service),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_formatter(internal::MakeLogFormatter(format == "json"));
  logger->set_level(*parsed);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

}  // namespace simurgh
