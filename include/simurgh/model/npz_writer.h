#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "simurgh/base/status.h"
#include "simurgh/model/tensor_file.h"

namespace simurgh {

// Writes numpy's .npz: a zip archive with an uncompressed .npy entry for each tensor, one after
// another. Errors are kept until Finish().
//
// Threads: one owner.
class NpzWriter {
 public:
  explicit NpzWriter(const std::string& path);
  ~NpzWriter();
  NpzWriter(const NpzWriter&) = delete;
  NpzWriter& operator=(const NpzWriter&) = delete;

  // Begins the next array and ends the one before.
  void Begin(const TensorSpec& tensor);
  void Write(std::span<const std::byte> bytes);
  // Must be the last call. Errors: UNAVAILABLE if the file could not be written.
  Status Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh
