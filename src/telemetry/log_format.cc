#include "telemetry/log_format.h"

#include <pthread.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/pattern_formatter.h>

namespace simurgh::internal {
namespace {

class ThreadNameFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg&, const std::tm&, spdlog::memory_buf_t& out) override {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    const std::string_view text(name);
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<ThreadNameFlag>();
  }
};

class LevelFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    std::string_view name = "error";
    switch (message.level) {
      case spdlog::level::trace:
        name = "trace";
        break;
      case spdlog::level::debug:
        name = "debug";
        break;
      case spdlog::level::info:
        name = "info ";
        break;
      case spdlog::level::warn:
        name = "warn ";
        break;
      default:
        break;
    }
    out.append(name.data(), name.data() + name.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<LevelFlag>();
  }
};

class MessageFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    const std::string text = EscapeControl({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<MessageFlag>();
  }
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

std::unique_ptr<spdlog::formatter> MakeLogFormatter() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<LevelFlag>('*');
  formatter->add_flag<ThreadNameFlag>('~');
  formatter->add_flag<MessageFlag>('_');
  formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %* %n %~: %_");
  return formatter;
}

}  // namespace simurgh::internal
