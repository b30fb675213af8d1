#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace simurgh::cpu {

// Threads that help their owner with one piece of work after another.
//
// A piece is over when its parts are done, not when every helper has come: one that the system runs
// late finds it closed. Helpers sleep soon when there is nothing to do: on a machine that is full,
// whoever spins keeps those waiting that it waits for.
//
// The state of a piece is one word: whether helpers may still enter it, and how many are within.
// The owner writes the piece before it opens (release), and a helper reads it after it has entered
// (acquire); it leaves with release, and the owner, having closed, waits for the last one
// (acquire).
//
// Threads: one owner.
class ComputePool {
 public:
  // on_start: what each helper calls first.
  ComputePool(size_t helpers, void (*on_start)());
  ~ComputePool();
  ComputePool(const ComputePool&) = delete;
  ComputePool& operator=(const ComputePool&) = delete;

  size_t helpers() const { return threads_.size(); }

  // Calls work(part) once for each part in [0, parts), on this thread and the helpers. work: does
  // not throw, calls nothing of this.
  void Run(size_t parts, absl::FunctionRef<void(size_t part)> work);

 private:
  static constexpr uint32_t kOpen = uint32_t{1} << 31;

  void Help();
  bool Enter();
  void Leave();
  void DoParts();

  // The present piece; constant while helpers are within.
  const absl::FunctionRef<void(size_t)>* work_ = nullptr;
  size_t parts_ = 0;

  std::atomic<size_t> next_part_ = 0;
  std::atomic<uint32_t> state_ = 0;   // kOpen, and the number of helpers within.
  std::atomic<uint32_t> pieces_ = 0;  // So far; helpers sleep on it.
  std::atomic<bool> ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace simurgh::cpu
