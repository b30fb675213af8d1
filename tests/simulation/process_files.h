#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/file_system.h"
#include "tests/simulation/world.h"
#include "tests/support/memory_file_system.h"

namespace simurgh::simulation {

// The folder that all processes share, and what can befall it.
struct Disk {
  testing::MemoryFileSystem files;
  uint64_t error_one_in = 0;  // Failures of single operations; 0: none.
  // The same for cold rows: reads that fail, and writes that store a part only.
  uint64_t cold_error_one_in = 0;
  uint64_t cold_torn_one_in = 0;
  // Called before each operation of a living process: the next death may be at this point.
  std::function<void()> on_operation;
  // Called after an attempt's folder has got the name of a checkpoint.
  std::function<void(const std::string& attempt)> on_published;
};

// A process's view of the disk. Each operation of a fiber is an event, so that others, deaths among
// them, happen in between. Those of a dead process fail.
class ProcessFiles : public FileSystem {
 public:
  ProcessFiles(World& world, Process& process, Disk& disk)
      : world_(world), process_(process), disk_(disk) {}

  StatusOr<std::unique_ptr<File>> Create(const std::string& path) override;
  StatusOr<std::unique_ptr<File>> Open(const std::string& path) override;
  Status MakeFolder(const std::string& path) override;
  Status SyncFolder(const std::string& path) override;
  StatusOr<std::vector<std::string>> List(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status Exchange(const std::string& a, const std::string& b) override;
  Status Remove(const std::string& path) override;
  StatusOr<uint64_t> FreeBytes(const std::string& folder) override;

  // After a sync that has failed.
  void LoseUnsynced(const std::string& path) {
    if (process_.alive) disk_.files.LoseUnsynced(path);
  }
  // Lets other events happen. Errors: of a dead process, and of a bad disk.
  Status Begin(const char* operation, const std::string& path, bool changes);

 private:
  World& world_;
  Process& process_;
  Disk& disk_;
};

}  // namespace simurgh::simulation
