#include "services/embedding_ps/row_saver.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/step_id.h"
#include "model/model_directory.h"
#include "model/row_files.h"
#include "model/tensor_file.h"

namespace simurgh {
namespace {

using Clock = CopyMemory::Clock;

// Bounds the time that a partition's thread copies before it serves the next request.
constexpr size_t kRowsPerPiece = 4'096;
// Number of pieces copied ahead. With fewer, the writer often waits until the partition's thread
// has woken up.
constexpr size_t kPiecesAhead = 3;
// Bounds the memory of rows as tensors, while the rows copied early are written.
constexpr size_t kBlocksTogether = 16;
// A wait for the bandwidth notices a stop after this time.
constexpr std::chrono::milliseconds kStopInterval{50};

// A peer names the folder: it must not lead out of the directory.
Status CheckFolder(const std::string& name) {
  const bool is_plain = std::ranges::all_of(name, [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
  });
  if (is_plain && !name.empty() && name[0] != '.') return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("save rows: '", name,
                   "' is not the name of a checkpoint's folder; use letters, digits, - and ."));
}

// A peer names the directory, too: it must be one that this training saves to. Only a process that
// may write there can have said so.
Status CheckDirectory(FileSystem& files, const SaveRowsCall& call) {
  if (call.directory.empty()) return absl::OkStatus();
  const StatusOr<uint64_t> run = ModelDirectory(call.directory, files).KeptRun();
  if (run.ok() && *run == TrainingOf(call.run)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "save rows: '", call.directory, "/run' does not name this training here",
      run.ok() ? "" : absl::StrCat(" (", run.status().message(), ")"),
      "; save with `simurgh checkpoint --directory`, to a folder that all daemons see at this "
      "path"));
}

Status CheckShared(FileSystem& files, const std::string& directory, const std::string& name) {
  const StatusOr<std::vector<std::string>> names = files.List(directory);
  const auto is_shared = [&](const std::string& one) { return one == name || one == name + "/"; };
  if (names.ok() && std::ranges::any_of(*names, is_shared)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "save rows: '", directory, "' has no '", name,
      "' here, which the nn-worker has created; use a folder that all daemons see at this path"));
}

uint64_t BytesOf(std::span<const std::vector<std::byte>> parts) {
  uint64_t bytes = 0;
  for (const auto& part : parts) bytes += part.size();
  return bytes;
}

}  // namespace

// The files of a save.
class RowSaver::Writer {
 public:
  Writer(RowSaver& saver, const SaveRowsCall& call, Notes& notes, RowTask::Progress& progress)
      : saver_(saver), call_(call), notes_(notes), progress_(progress) {}

  StatusOr<std::vector<ModelFile>> Run() {
    SIMURGH_RETURN_IF_ERROR(CreateAll());
    // The sketches and the removed ids take memory until they are written.
    for (uint32_t t = 0; t < files_.size(); ++t) {
      SIMURGH_RETURN_IF_ERROR(WriteAdmission(t));
      SIMURGH_RETURN_IF_ERROR(WriteRemoved(t));
    }
    for (uint32_t p = 0; p < saver_.partitions_.count; ++p) SIMURGH_RETURN_IF_ERROR(WriteRows(p));
    return Finish();
  }

 private:
  struct PlannedFile {
    std::string name;
    TensorFileWriter writer;
  };
  struct TableFiles {
    std::optional<PlannedFile> rows;
    std::optional<PlannedFile> admission;
    std::optional<PlannedFile> removed;
  };

  FileSystem& files() const { return saver_.FilesOf(call_); }

  // Creates the folders of files such as "rows/TABLE/0.safetensors". The nn-worker may have removed
  // the folder above them, after the failure of another server.
  Status CreateFolders(const std::string& folder) {
    std::map<std::string, std::vector<std::string>> tables;  // Keyed by the kind of file.
    for (const TablePlan& plan : notes_.tables) {
      const auto add = [&](const FilePlan& file) {
        const size_t kind = file.name.find('/');
        tables[file.name.substr(0, kind)].push_back(
            file.name.substr(kind + 1, file.name.rfind('/') - kind - 1));
      };
      add(plan.rows);
      if (plan.admission) add(*plan.admission);
      if (plan.removed) add(*plan.removed);
    }
    std::vector<std::string> kinds;
    for (const auto& [kind, names] : tables) kinds.push_back(kind);
    SIMURGH_RETURN_IF_ERROR(files().MakeFoldersIn(folder, kinds));
    for (const auto& [kind, names] : tables) {
      SIMURGH_RETURN_IF_ERROR(files().MakeFoldersIn(absl::StrCat(folder, "/", kind), names));
    }
    return absl::OkStatus();
  }

  // Creates all files, so that a full disk shows before any row is copied, in one error.
  Status CreateAll() {
    const std::string folder = absl::StrCat(saver_.DirectoryOf(call_), "/", call_.folder);
    Status status = CreateFolders(folder);
    for (const TablePlan& plan : notes_.tables) {
      if (!status.ok()) break;
      TableFiles& files = files_.emplace_back();
      status = Create(folder, plan.rows, files.rows);
      if (status.ok() && plan.admission) status = Create(folder, *plan.admission, files.admission);
      if (status.ok() && plan.removed) status = Create(folder, *plan.removed, files.removed);
    }
    if (!absl::IsResourceExhausted(status)) return status;
    files_.clear();  // Removes them.
    SIMURGH_ASSIGN_OR_RETURN(const uint64_t free, files().FreeBytes(folder));
    return free >= notes_.bytes
               ? status
               : DiskFullError(folder, "the save of a server's rows", notes_.bytes, free);
  }

  // Creates a file and reserves its room.
  Status Create(const std::string& folder, const FilePlan& plan, std::optional<PlannedFile>& file) {
    SIMURGH_ASSIGN_OR_RETURN(TensorFileWriter writer,
                             TensorFileWriter::Create(absl::StrCat(folder, "/", plan.name),
                                                      plan.tensors, plan.metadata, files()));
    file.emplace(plan.name, std::move(writer));
    return absl::OkStatus();
  }

  // Finishes all files together, because a model can have thousands of small tables.
  StatusOr<std::vector<ModelFile>> Finish() {
    std::vector<PlannedFile*> planned;
    for (TableFiles& files : files_) {
      for (std::optional<PlannedFile>* file : {&files.rows, &files.admission, &files.removed}) {
        if (*file) planned.push_back(&**file);
      }
    }
    std::vector<TensorFileWriter*> writers;
    for (PlannedFile* file : planned) writers.push_back(&file->writer);
    SIMURGH_ASSIGN_OR_RETURN(std::vector<ModelFile> written, TensorFileWriter::FinishAll(writers));
    for (size_t i = 0; i < planned.size(); ++i) written[i].path = planned[i]->name;
    return written;
  }

  Status WriteAdmission(uint32_t table) {
    if (!files_[table].admission) return absl::OkStatus();
    for (Noted& noted : notes_.partitions) {
      SIMURGH_RETURN_IF_ERROR(
          Append(files_[table].admission->writer, noted.sketches[table], noted.admission[table]));
      saver_.memory_.Release(BytesOf(noted.admission[table]));
      noted.admission[table].clear();
    }
    return absl::OkStatus();
  }

  Status WriteRemoved(uint32_t table) {
    if (!files_[table].removed) return absl::OkStatus();
    for (Noted& noted : notes_.partitions) {
      std::vector<uint64_t>& removed = noted.removed[table];
      SIMURGH_RETURN_IF_ERROR(
          files_[table].removed->writer.Write("id", std::as_bytes(std::span(removed))));
      saver_.memory_.Release(removed.size() * sizeof(uint64_t));
      removed = {};
    }
    return absl::OkStatus();
  }

  // Rows of a table, and of those after it as long as they are small.
  struct Piece {
    std::vector<std::pair<uint32_t, CopiedRows>> tables;
    bool done = false;  // There are no further rows of any table.
  };

  // The partition copies the next pieces while one is written.
  Status WriteRows(uint32_t partition) {
    std::array<Piece, kPiecesAhead> pieces;
    std::array<std::future<void>, kPiecesAhead> taken;
    uint32_t table = 0;  // Only the partition's thread uses it.
    const auto take = [&](size_t at) {
      taken[at] =
          saver_.partitions_.on_one(partition, [&piece = pieces[at], &table](Partition& own) {
            size_t rows = 0;
            while (table < own.table_count() && rows < kRowsPerPiece) {
              CopiedRows& some = piece.tables.emplace_back(table, CopiedRows()).second;
              some = own.table(table).TakeRows(kRowsPerPiece - rows);
              rows += some.rows;
              if (some.done) ++table;
              if (some.rows == 0 && !some.done) break;
            }
            piece.done = table == own.table_count();
          });
    };
    for (size_t at = 0; at < kPiecesAhead; ++at) take(at);
    Status written;
    bool done = false;
    for (size_t at = 0; written.ok() && !done; at = (at + 1) % kPiecesAhead) {
      taken[at].get();
      Piece piece = std::exchange(pieces[at], {});
      done = piece.done;
      if (!done) take(at);
      written = WritePiece(piece);
      if (written.ok() && !done && saver_.memory_.IsShort()) written = EmptyMemory();
    }
    // Pieces after the last one are empty.
    for (size_t at = 0; at < kPiecesAhead; ++at) {
      if (taken[at].valid()) taken[at].get();
      for (const auto& [t, rows] : pieces[at].tables) saver_.memory_.Release(rows.early_bytes);
    }
    return written;
  }

  Status WritePiece(Piece& piece) {
    Status written;
    for (auto& [table, rows] : piece.tables) {
      if (written.ok()) {
        written = WriteCopied(table, std::move(rows));
      } else {
        saver_.memory_.Release(rows.early_bytes);
      }
    }
    return written;
  }

  // Writes all rows that were copied early, because pulls wait for memory.
  Status EmptyMemory() {
    std::vector<std::vector<CopiedRows>> taken(saver_.partitions_.count);
    saver_.partitions_.on_all([&](uint32_t p, Partition& own) {
      for (uint32_t t = 0; t < own.table_count(); ++t) {
        taken[p].push_back(own.table(t).TakeEarlyRows());
      }
    });
    Status written;
    for (auto& by_table : taken) {
      for (uint32_t t = 0; t < by_table.size(); ++t) {
        if (written.ok()) {
          written = WriteCopied(t, std::move(by_table[t]));
        } else {
          saver_.memory_.Release(by_table[t].early_bytes);
        }
      }
    }
    SIMURGH_RETURN_IF_ERROR(written);
    // Until now, the writer ignores the bandwidth.
    saver_.memory_.ClearShortage();
    saver_.partitions_.on_all([](uint32_t /*partition*/, Partition&) {});
    return absl::OkStatus();
  }

  // Writes parts of few blocks, because tensors take memory as well.
  Status WriteCopied(uint32_t table, CopiedRows rows) {
    SIMURGH_RETURN_IF_ERROR(rows.failure);
    const TableConfig& config = saver_.tables_[table];
    parts_.resize(Table::FileTensors(config, 0).size());
    Status written;
    for (size_t at = 0; at < rows.blocks.size() && written.ok(); at += kBlocksTogether) {
      const auto some =
          std::span(rows.blocks).subspan(at, std::min(kBlocksTogether, rows.blocks.size() - at));
      Table::SplitRows(config, rows.stamp_origin, some, parts_);
      const uint64_t count = parts_[0].size() / sizeof(uint64_t);
      written = Append(files_[table].rows->writer, count, parts_);
      progress_.rows += count;
      if (rows.early_bytes == 0) continue;
      const uint64_t bytes = BytesOf(some);
      saver_.memory_.Release(bytes);
      rows.early_bytes -= bytes;
      for (std::vector<std::byte>& block : some) block = {};
    }
    saver_.memory_.Release(rows.early_bytes);
    return written;
  }

  Status Append(TensorFileWriter& writer, uint64_t rows,
                const std::vector<std::vector<std::byte>>& parts) {
    const std::vector<std::span<const std::byte>> views(parts.begin(), parts.end());
    SIMURGH_RETURN_IF_ERROR(writer.Append(rows, views));
    AwaitBandwidth(BytesOf(parts));
    return progress_.stopped ? absl::CancelledError("save rows: stopped") : absl::OkStatus();
  }

  // Waits until these bytes are due, unless pulls wait for memory.
  void AwaitBandwidth(uint64_t bytes) {
    if (saver_.config_.bandwidth == 0) return;
    due_ = std::max(due_, Clock::now()) +
           std::chrono::nanoseconds(static_cast<int64_t>(
               1e9 * static_cast<double>(bytes) / static_cast<double>(saver_.config_.bandwidth)));
    while (!progress_.stopped) {
      const Clock::time_point now = Clock::now();
      if (saver_.memory_.IsShort()) due_ = now;
      if (due_ <= now) return;
      saver_.memory_.AwaitShortage(std::min(due_, now + kStopInterval));
    }
  }

  RowSaver& saver_;
  const SaveRowsCall& call_;
  Notes& notes_;
  RowTask::Progress& progress_;
  std::vector<TableFiles> files_;  // One per table.
  std::vector<std::vector<std::byte>> parts_;
  Clock::time_point due_;
};

RowSaver::RowSaver(const CheckpointConfig& config, std::vector<TableConfig> tables,
                   PartitionThreads partitions, CopyMemory& memory, ServerMetrics& metrics,
                   const ServerEnvironment& environment)
    : config_(config),
      tables_(std::move(tables)),
      partitions_(std::move(partitions)),
      memory_(memory),
      metrics_(metrics),
      files_(environment.files),
      task_(environment.start_save) {}

StatusOr<SaveProgress> RowSaver::Save(const SaveRowsCall& call) {
  if (config_.directory.empty()) {
    return absl::FailedPreconditionError(
        "save rows: this server has no checkpoint.directory; use the same configuration for all "
        "daemons");
  }
  SIMURGH_RETURN_IF_ERROR(CheckFolder(call.folder));
  SIMURGH_RETURN_IF_ERROR(CheckDirectory(FilesOf(call), call));
  if (call.probe) {
    SIMURGH_RETURN_IF_ERROR(CheckShared(FilesOf(call), DirectoryOf(call), call.folder));
    return SaveProgress{.done = true};
  }
  const std::string name =
      absl::StrCat("save rows: ", call.directory, call.directory.empty() ? "" : "/", call.folder);
  // A late call of an earlier save must not stop the present one.
  if (task_.IsEarlier(name)) {
    return absl::FailedPreconditionError(absl::StrCat(name, ": another save has begun since"));
  }
  if (call.continues && !task_.IsLast(name)) {
    return absl::DataLossError(
        absl::StrCat(name, ": this server was restarted since the save has begun"));
  }
  return task_.StartOrReport(name, [&]() -> StatusOr<RowTask::Work> {
    SIMURGH_RETURN_IF_ERROR(CheckShared(FilesOf(call), DirectoryOf(call), call.folder));
    // Shared: a std::function must be copyable.
    auto notes = std::make_shared<Notes>(Begin(call));
    return RowTask::Work{
        .run = [this, call,
                notes](RowTask::Progress& progress) { return Write(call, *notes, progress); },
        .bytes = notes->bytes,
        .evicted = notes->evicted};
  });
}

CopyBase RowSaver::BaseOf(const SaveRowsCall& call) {
  if (config_.full_every == 1) return CopyBase::kUnnoted;
  // Folders of other runs may have the same names.
  const auto key = [&](const std::string& folder) { return absl::StrCat(call.run, " ", folder); };
  const std::string last = std::exchange(last_, key(call.folder));
  if (!call.parent.empty() && key(call.parent) == last) {
    base_ = last;
    return CopyBase::kLast;
  }
  if (!call.parent.empty() && key(call.parent) == base_) return CopyBase::kBeforeLast;
  base_.clear();
  return CopyBase::kNone;
}

RowSaver::Notes RowSaver::Begin(const SaveRowsCall& call) {
  Notes notes{.partitions = std::vector<Noted>(partitions_.count)};
  const CopyBase base = BaseOf(call);
  partitions_.on_all([&](uint32_t p, Partition& own) {
    own.BeginCopy(memory_, base);
    Noted& noted = notes.partitions[p];
    for (uint32_t t = 0; t < own.table_count(); ++t) {
      const TableStats stats = own.table(t).stats();
      noted.rows.push_back(stats.rows);
      noted.evicted.push_back(stats.evicted);
      noted.sketches.push_back(own.table(t).sketches());
      auto& sketches = noted.admission.emplace_back();
      sketches.resize(Table::AdmissionTensors(tables_[t], 0).size());
      if (sketches.empty()) continue;
      own.table(t).CopyAdmission(sketches);
      memory_.Take(BytesOf(sketches));
    }
  });
  notes.evicted.resize(tables_.size());
  for (const Noted& noted : notes.partitions) {
    std::ranges::transform(noted.evicted, notes.evicted, notes.evicted.begin(), std::plus());
  }
  NoteChanges(notes);
  PlanFiles(call, notes);
  return notes;
}

// Decides which tables are saved as deltas, and restricts their copies.
void RowSaver::NoteChanges(Notes& notes) {
  std::vector<std::vector<std::optional<uint64_t>>> changed(partitions_.count);
  partitions_.on_all([&](uint32_t p, Partition& own) {
    for (uint32_t t = 0; t < own.table_count(); ++t) {
      const std::optional<TableChanges> changes = own.table(t).changes();
      changed[p].push_back(changes ? std::optional(changes->rows) : std::nullopt);
    }
  });
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    uint64_t rows = 0;
    uint64_t copied = 0;
    bool known = true;
    for (uint32_t p = 0; p < partitions_.count; ++p) {
      rows += notes.partitions[p].rows[t];
      copied += changed[p][t].value_or(0);
      known = known && changed[p][t].has_value();
    }
    notes.is_delta.push_back(known && 2 * copied <= rows);
  }
  partitions_.on_all([&](uint32_t p, Partition& own) {
    Noted& noted = notes.partitions[p];
    noted.copied_rows = noted.rows;
    noted.removed.resize(own.table_count());
    for (uint32_t t = 0; t < own.table_count(); ++t) {
      if (!notes.is_delta[t]) continue;
      Table& table = own.table(t);
      table.CopyChanges();
      noted.copied_rows[t] = *changed[p][t];
      const std::span<const uint64_t> removed = table.changes()->removed;
      noted.removed[t].assign(removed.begin(), removed.end());
      memory_.Take(removed.size_bytes());
    }
  });
}

void RowSaver::PlanFiles(const SaveRowsCall& call, Notes& notes) {
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    const TableConfig& table = tables_[t];
    const auto name = [&](const char* folder) {
      return absl::StrCat(folder, "/", table.name, "/", call.server, ".safetensors");
    };
    uint64_t rows = 0;
    uint64_t copied = 0;
    uint64_t sketches = 0;
    uint64_t removed = 0;
    for (const Noted& noted : notes.partitions) {
      rows += noted.rows[t];
      copied += noted.copied_rows[t];
      sketches += noted.sketches[t];
      removed += noted.removed[t].size();
    }
    TablePlan plan{
        .rows = {name("rows"), Table::FileTensors(table, copied), Table::FileMetadata(table)}};
    const TensorMetadata of_table{{"table", table.name}};
    if (notes.is_delta[t]) {
      plan.rows.metadata[kRowsAfterDelta] = absl::StrCat(rows);
      plan.removed = {name("removed"), {{"id", DType::kU64, {removed}}}, of_table};
    }
    if (!Table::AdmissionTensors(table, 0).empty()) {
      plan.admission = {name("admission"), Table::AdmissionTensors(table, sketches), of_table};
    }
    for (const FilePlan* file : {&plan.rows, plan.admission ? &*plan.admission : nullptr,
                                 plan.removed ? &*plan.removed : nullptr}) {
      if (file != nullptr) notes.bytes += TensorFileWriter::BytesOf(file->tensors, file->metadata);
    }
    notes.tables.push_back(std::move(plan));
  }
}

StatusOr<std::vector<ModelFile>> RowSaver::Write(const SaveRowsCall& call, Notes& notes,
                                                 RowTask::Progress& progress) {
  const auto begin = Clock::now();
  for (const Noted& one : notes.partitions) {
    for (const uint64_t rows : one.copied_rows) progress.all_rows += rows;
  }
  StatusOr<std::vector<ModelFile>> result = Writer(*this, call, notes, progress).Run();
  for (const Noted& one : notes.partitions) {
    for (const auto& sketches : one.admission) memory_.Release(BytesOf(sketches));
    for (const auto& removed : one.removed) memory_.Release(removed.size() * sizeof(uint64_t));
  }
  partitions_.on_all([](uint32_t /*partition*/, Partition& own) { own.EndCopy(); });
  memory_.ClearShortage();
  if (!result.ok()) {
    metrics_.OnSaveFailed();
    spdlog::error("rows are not saved: {}", std::string(result.status().message()));
    return result;
  }
  uint64_t bytes = 0;
  for (const ModelFile& file : *result) bytes += file.bytes;
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  metrics_.OnSave(seconds);
  spdlog::info("saved rows: folder={} rows={} bytes={} seconds={:.2f}", call.folder,
               progress.rows.load(), bytes, seconds);
  return result;
}

}  // namespace simurgh
