#pragma once

#include <string>
#include <string_view>

#include "tests/support/temporary_folder.h"

namespace simurgh {

std::string ReadWholeFile(const std::string& path);

// `content` as one gzip member, or one zstd frame.
std::string Gzip(std::string_view content);
std::string Zstd(std::string_view content);

}  // namespace simurgh
