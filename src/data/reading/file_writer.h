#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace simurgh {

// Writes a file completely or not at all: the file has no name, or a temporary one in the same
// folder, until Commit. Compresses with zstd if the name ends in .zst.
//
// Threads: one owner.
class FileWriter {
 public:
  // Creates a file. Errors: NOT_FOUND, PERMISSION_DENIED and others, naming the path.
  static StatusOr<FileWriter> Create(const std::string& path);

  ~FileWriter();
  FileWriter(FileWriter&&) noexcept;

  // Appends bytes. Cost: at least one system call; append large pieces.
  // Errors: RESOURCE_EXHAUSTED for a full disk, and others, naming the path.
  Status Append(std::string_view bytes);

  // Writes buffered bytes, makes the file durable and renames it, replacing an existing file. Must
  // be the last call. Errors: those of Append.
  Status Commit();

 private:
  struct State;
  explicit FileWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace simurgh
