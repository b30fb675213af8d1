#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/service_config.h"
#include "config/table_config.h"
#include "model/tensor_file.h"
#include "services/api/row_rpc.h"
#include "services/embedding_ps/row_loader.h"
#include "services/embedding_ps/row_task.h"
#include "services/embedding_ps/server_environment.h"
#include "services/embedding_ps/server_metrics.h"
#include "table/memory_budget.h"
#include "table/partition.h"

namespace simurgh {

// Writes the rows of a server into a checkpoint, beside its requests, as they were when the save
// began: all of them, or those that changed since an earlier save. It takes copies from the
// partitions' threads in small pieces, between requests. The destructor ends a save at the next
// piece and removes its files.
//
// Threads: any.
class RowSaver {
 public:
  // config.directory: empty if nothing is saved. memory: of config.memory bytes.
  // Lifetime: `memory`, `metrics` and the environment's files must outlive the saver.
  RowSaver(const CheckpointConfig& config, std::vector<TableConfig> tables,
           PartitionThreads partitions, CopyMemory& memory, ServerMetrics& metrics,
           const ServerEnvironment& environment = {});

  // The first call for a folder notes the state of all partitions and starts; the others report. A
  // probe only looks for the folder. The first call waits for the partitions' threads.
  //
  // A table's file has all rows, although call.parent is given, where the changes since then are
  // not known or are most of the rows.
  // Errors: INVALID_ARGUMENT for a name that is not one of a folder in `directory`;
  // FAILED_PRECONDITION without a directory, for call.directory of another training, or once
  // another save has begun; ABORTED while another save stops, which the first call has caused;
  // RESOURCE_EXHAUSTED for a full disk; of TensorFileWriter, when the save has failed.
  StatusOr<SaveProgress> Save(const SaveRowsCall& call);

  // Stops a save in progress. Errors: ABORTED until it has ended.
  Status Stop() { return task_.Stop(); }

 private:
  // The state of a partition when a save begins. All vectors are indexed by table.
  struct Noted {
    std::vector<uint64_t> rows;
    std::vector<uint64_t> evicted;
    std::vector<uint64_t> copied_rows;           // Rows to write.
    std::vector<std::vector<uint64_t>> removed;  // Removed ids; empty unless the save is a delta.
    std::vector<uint64_t> sketches;
    std::vector<std::vector<std::vector<std::byte>>> admission;  // One entry per tensor.
  };
  // A file to write. name: its path in the checkpoint.
  struct FilePlan {
    std::string name;
    std::vector<TensorSpec> tensors;
    TensorMetadata metadata;
  };
  struct TablePlan {
    FilePlan rows;
    std::optional<FilePlan> admission;
    std::optional<FilePlan> removed;
  };
  // The state of the server when a save begins, and the files to write.
  struct Notes {
    std::vector<Noted> partitions;
    std::vector<bool> is_delta;     // One per table.
    std::vector<TablePlan> tables;  // One per table.
    uint64_t bytes = 0;             // Size of all files.
    std::vector<uint64_t> evicted;  // See SaveProgress.
  };
  class Writer;

  const std::string& DirectoryOf(const SaveRowsCall& call) const {
    return call.directory.empty() ? config_.directory : call.directory;
  }
  FileSystem& FilesOf(const SaveRowsCall& call) const {
    return FileSystem::For(DirectoryOf(call), files_);
  }
  CopyBase BaseOf(const SaveRowsCall& call);
  Notes Begin(const SaveRowsCall& call);
  void NoteChanges(Notes& notes);
  void PlanFiles(const SaveRowsCall& call, Notes& notes);
  StatusOr<std::vector<ModelFile>> Write(const SaveRowsCall& call, Notes& notes,
                                         RowTask::Progress& progress);

  const CheckpointConfig config_;
  const std::vector<TableConfig> tables_;
  const PartitionThreads partitions_;
  CopyMemory& memory_;
  ServerMetrics& metrics_;
  FileSystem& files_;  // Files that are in no bucket.
  // Saves of this server whose changes since then are known: the last one, and the one that it
  // continues. Empty if there is none.
  std::string last_;
  std::string base_;
  RowTask task_;
};

}  // namespace simurgh
