#include "tests/simulation/memory_disk.h"

#include <algorithm>
#include <utility>

namespace simurgh::simulation {

Status MemoryDisk::Write(uint64_t offset, std::span<const std::byte> bytes) {
  if (world_.Chance(disk_.cold_torn_one_in)) {
    world_.Note("a write of cold rows is torn");
    bytes = bytes.first(bytes.size() / 2);
  }
  std::ranges::copy(bytes, bytes_.begin() + static_cast<std::ptrdiff_t>(offset));
  return absl::OkStatus();
}

Status MemoryDisk::Read(std::span<const Part> parts, Reader /*reader*/) {
  for (const Part& part : parts) {
    if (world_.Chance(disk_.cold_error_one_in)) {
      world_.Note("a read of cold rows fails");
      return absl::DataLossError("cannot read cold rows: input/output error");
    }
    const auto from = bytes_.begin() + static_cast<std::ptrdiff_t>(part.offset);
    std::copy_n(from, part.to.size(), part.to.begin());
  }
  return absl::OkStatus();
}

void MemoryDisk::Post(std::function<bool()> task, Urgency /*urgency*/, const void* /*key*/) {
  const uint64_t number = posted_++;
  tasks_[number] = std::move(task);
  Run(number);
}

void MemoryDisk::Run(uint64_t number) {
  world_.After(1 + world_.random.Below(500), [this, handle = handle(), number] {
    if (handle.expired() || !tasks_.contains(number)) return;
    if (!tasks_[number]()) return Run(number);
    tasks_.erase(number);
    Wake();
    on_end_();
  });
}

void MemoryDisk::Finish() {
  while (!tasks_.empty()) {
    const auto task = tasks_.begin();
    while (!task->second()) {
    }
    tasks_.erase(task);
    Wake();
  }
}

Status MemoryDisk::Extend(uint64_t offset) {
  bytes_.resize(offset + segment_bytes());
  return absl::OkStatus();
}

}  // namespace simurgh::simulation
