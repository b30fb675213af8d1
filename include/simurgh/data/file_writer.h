#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "simurgh/base/status.h"

namespace simurgh {

// Writes a file whole or not at all: under a temporary name beside it, renamed by Commit, removed
// without. A name that ends in .zst is compressed with zstd.
//
// Threads: one owner.
class FileWriter {
 public:
  // Errors: NOT_FOUND, PERMISSION_DENIED and others, naming the path.
  static StatusOr<FileWriter> Create(const std::string& path);

  ~FileWriter();
  FileWriter(FileWriter&&) noexcept;
  FileWriter& operator=(FileWriter&&) noexcept;

  // Cost: a write call at least; append large pieces.
  // Errors: RESOURCE_EXHAUSTED for a full disk, and others, naming the path.
  Status Append(std::string_view bytes);

  // Writes what is held back, makes it durable and gives the file its name, replacing one that is
  // there. Nothing may follow.
  // Errors: as Append.
  Status Commit();

 private:
  struct State;
  explicit FileWriter(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace simurgh
