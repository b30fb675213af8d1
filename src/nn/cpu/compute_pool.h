#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace simurgh::cpu {

// Helper threads that run parts of the owner's work.
//
// A piece of work ends when its parts are done; it does not wait for every helper to start. A
// helper that the system schedules late finds the piece closed. Idle helpers spin briefly, then
// sleep: on a loaded machine a spinning thread delays the thread it waits for.
//
// One word is the state of a piece: whether helpers may enter, and how many are inside. The owner
// writes the piece, then opens it (release); a helper enters (acquire), then reads it. Helpers
// leave with release; the owner closes the piece and waits for the last one (acquire).
//
// Threads: one owner.
class ComputePool {
 public:
  // on_start: called first on each helper thread.
  ComputePool(size_t helpers, void (*on_start)());
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  size_t helpers() const { return threads_.size(); }

  // Calls work(part) once for each part in [0, parts), on this thread and the helpers.
  // Requires: work does not throw or call this object.
  void Run(size_t parts, absl::FunctionRef<void(size_t part)> work);

 private:
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  void Help();
  bool Enter();
  void Leave();
  void DoParts();

  // The present piece; constant while helpers are inside.
  const absl::FunctionRef<void(size_t)>* work_ = nullptr;
  size_t parts_ = 0;

  std::atomic<size_t> next_part_ = 0;
  std::atomic<uint32_t> state_ = 0;   // kOpen and the number of helpers inside.
  std::atomic<uint32_t> pieces_ = 0;  // Number of pieces so far; helpers wait for a change.
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace simurgh::cpu
