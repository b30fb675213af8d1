#pragma once

#include <string>
#include <string_view>

namespace simurgh {

// A folder for a test's files, removed with everything in it at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string Path(std::string_view name) const;

  // Writes a file and answers its path.
  std::string Write(std::string_view name, std::string_view content) const;

 private:
  std::string folder_;
};

std::string ReadWholeFile(const std::string& path);

// `content` as one gzip member, or one zstd frame.
std::string Gzip(std::string_view content);
std::string Zstd(std::string_view content);

}  // namespace simurgh
