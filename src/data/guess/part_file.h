#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace simurgh {

// Writes a header and then lines, in their order or in a random one, which depends on their number
// only. Writes the file completely or not at all, compressed like FileWriter's.
//
// Memory: for a random order, `memory` bytes of lines and, at the end, 1/256 of all lines. Further
// lines are in a temporary file in the same folder, which has no name.
// Threads: one owner.
class PartFile {
 public:
  enum class Order { kKept, kRandom };
  static constexpr uint64_t kMemory = uint64_t{128} << 20;

  // Creates the file. Errors: those of FileWriter::Create.
  static StatusOr<PartFile> Create(const std::string& path, std::string_view header, Order order,
                                   uint64_t memory = kMemory);
  ~PartFile();
  PartFile(PartFile&&) noexcept;
  PartFile& operator=(PartFile&&) noexcept;

  // Adds a line, given without its end. Errors: those of FileWriter::Append.
  Status Add(std::string_view line);
  uint64_t lines() const;  // Returns the number of lines without the header.
  // Completes the file. Must be the last call. Errors: those of FileWriter::Append.
  Status Commit();

 private:
  struct State;
  explicit PartFile(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace simurgh
