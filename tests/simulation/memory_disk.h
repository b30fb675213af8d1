#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "table/cold_disk.h"
#include "tests/simulation/process_files.h"
#include "tests/simulation/world.h"

namespace simurgh::simulation {

// A server's disk of cold rows, in memory. Its tasks are events. While it has errors, reads
// fail, or writes store a part only, which nothing reports.
class MemoryDisk : public ColdDisk {
 public:
  // A block has one or two rows, so that few rows fill many segments.
  static constexpr uint64_t kSegmentBytes = 4096;

  // on_end: called after the end of a task.
  MemoryDisk(World& world, const Disk& disk, std::function<void()> on_end)
      : ColdDisk(kSegmentBytes), world_(world), disk_(disk), on_end_(std::move(on_end)) {}
  ~MemoryDisk() override { handle_.reset(); }
  // Refers to the disk while it exists.
  std::weak_ptr<MemoryDisk*> handle() const { return handle_; }

  Status Write(uint64_t offset, std::span<const std::byte> bytes) override;
  Status Read(std::span<const Part> parts, Reader reader) override;
  void Post(std::function<bool()> task, Urgency urgency, const void* key) override;
  // Runs all tasks to their ends.
  void Finish();
  std::string Method() const override { return "simulated"; }

 private:
  Status Extend(uint64_t offset) override;
  // Runs a part of a task, which may have ended.
  void Run(uint64_t number);

  World& world_;
  const Disk& disk_;
  const std::function<void()> on_end_;
  std::vector<std::byte> bytes_;
  std::map<uint64_t, std::function<bool()>> tasks_;
  uint64_t posted_ = 0;
  std::shared_ptr<MemoryDisk*> handle_ = std::make_shared<MemoryDisk*>(this);
};

}  // namespace simurgh::simulation
