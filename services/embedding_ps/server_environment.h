#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "model/file_system.h"
#include "table/partition.h"

namespace simurgh {

// The thread that owns a partition. The destructor waits for its end.
class PartitionThread {
 public:
  virtual ~PartitionThread() = default;
  virtual boost::asio::any_io_executor executor() = 0;
  // Runs a function on the thread; another thread waits for the future.
  virtual std::future<void> Run(std::function<void()> function) = 0;
};

// Starts a task beside the partitions' threads. Returns a function that waits for its end.
using TaskStarter = std::function<std::function<void()>(std::function<void()> task)>;

std::unique_ptr<PartitionThread> StartPartitionThread(const std::string& name);
std::function<void()> StartTaskThread(std::function<void()> task);
// Starts a task like StartTaskThread(), with low priority.
std::function<void()> StartBackgroundThread(std::function<void()> task);

// The files and threads that a server uses. A simulation replaces them.
struct ServerEnvironment {
  // Files that are in no bucket. Lifetime: the server's.
  FileSystem& files = FileSystem::Real();
  // Returns the file system of a model's folder.
  FileSystem& FilesOf(const std::string& folder) const { return FileSystem::For(folder, files); }

  std::function<std::unique_ptr<PartitionThread>(const std::string& name)> start_partition =
      StartPartitionThread;
  PartitionMemory::MakeColdDisk make_cold_disk = PartitionMemory().make_cold_disk;
  TaskStarter start_save = StartBackgroundThread;
  TaskStarter start_load = StartTaskThread;
};

}  // namespace simurgh
