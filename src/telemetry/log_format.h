#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <spdlog/formatter.h>

namespace simurgh::internal {

// Replaces control characters by escapes, so that the text is one line.
std::string EscapeControl(std::string_view text);

// Formats lines as logging.h describes.
std::unique_ptr<spdlog::formatter> MakeLogFormatter(bool is_json = false);

}  // namespace simurgh::internal
