#pragma once

#include <string>
#include <string_view>

namespace simurgh {

// A folder for a test's files. The destructor removes it with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  // parent: "/dev/shm" for a folder in memory, where syncs cost nothing.
  explicit TemporaryFolder(const std::string& parent);
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::string& path() const { return path_; }
  std::string Path(std::string_view name) const;

  // Writes a file and answers its path.
  std::string Write(std::string_view name, std::string_view content) const;

 private:
  std::string path_;
};

}  // namespace simurgh
