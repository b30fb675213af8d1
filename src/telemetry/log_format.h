#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <spdlog/formatter.h>

namespace simurgh::internal {

// `text` with every control character written as an escape, so that it stays on its line.
std::string EscapeControl(std::string_view text);

// The line that logging.h describes.
std::unique_ptr<spdlog::formatter> MakeLogFormatter();

}  // namespace simurgh::internal
