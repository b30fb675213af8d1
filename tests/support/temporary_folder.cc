#include "tests/support/temporary_folder.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace simurgh {

TemporaryFolder::TemporaryFolder() : TemporaryFolder(std::filesystem::temp_directory_path()) {}

TemporaryFolder::TemporaryFolder(const std::string& parent) {
  std::string pattern = parent + "/simurgh-test-XXXXXX";
  SIMURGH_CHECK(mkdtemp(pattern.data()) != nullptr) << "cannot create " << pattern;
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::Path(std::string_view name) const {
  return path_ + "/" + std::string(name);
}

std::string TemporaryFolder::Write(std::string_view name, std::string_view content) const {
  const std::string path = Path(name);
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

}  // namespace simurgh
