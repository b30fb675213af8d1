#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

#include "tensor/finite.h"

namespace simurgh::cpu {

// Sets the number of threads, including the caller, of this thread's RunParts calls. The calling
// thread owns the helpers, which sleep while idle and end with it. oneDNN does not start threads
// from any of them.
//
// Cost: starts threads if the number changes, else a comparison. Call it wherever the calling
// thread may be a new one.
void SetComputeThreads(uint32_t threads);

// Returns the number last set by this thread; initially 1.
size_t ComputeThreads();

// Calls work(part) for all parts in [0, parts), each on the next free thread, and returns when all
// are done. A helper that the system does not schedule delays the call only while it runs a part.
// Requires: work does not throw or call functions of this header.
void RunParts(size_t parts, absl::FunctionRef<void(size_t part)> work);

// Minimum elements per thread in an elementwise loop: about ten microseconds of work.
inline constexpr size_t kPartElements = size_t{1} << 15;

// Minimum rows per thread: kPartElements in rows.
inline size_t MinRows(size_t columns) { return kPartElements / std::max<size_t>(columns, 1) + 1; }

// Calls work(first, end) for ranges that make up [0, count), by RunParts. Makes at most one range
// per thread, each about `min` or longer, with bounds at multiples of a cache line of floats.
void ForEachPart(size_t count, size_t min, absl::FunctionRef<void(size_t, size_t)> work);

// Calls work(row) for rows of this many columns, by ForEachPart.
template <typename Work>
void ForEachRow(size_t rows, size_t columns, const Work& work) {
  ForEachPart(rows, MinRows(columns), [&](size_t first, size_t end) {
    for (size_t row = first; row < end; ++row) work(row);
  });
}

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

// Returns whether all gradients are usable; see simurgh::AllUsable(). Cost: one pass over memory on
// the compute threads.
inline bool AllUsable(std::span<const float> gradients) {
  std::atomic<bool> usable = true;
  ForEachPart(gradients.size(), kPartElements, [&](size_t first, size_t end) {
    if (!simurgh::AllUsable(gradients.subspan(first, end - first))) usable = false;
  });
  return usable;
}

}  // namespace simurgh::cpu
