#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace simurgh::bench {

// A folder for files that a bench needs, gone with this.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "simurgh-bench-XXXXXX").string();
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace simurgh::bench
