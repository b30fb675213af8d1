#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

#include "base/status.h"
#include "model/file_system.h"
#include "model/manifest.h"
#include "model/tensor_file.h"

namespace simurgh {

// A checkpoint whose manifest is valid.
struct Checkpoint {
  std::string folder;
  Manifest manifest;
  uint64_t checksum = 0;                    // XXH3-64 of manifest.json, which a delta names.
  bool has_checksum = true;                 // Whether manifest.json has its own checksum.
  FileSystem* files = &FileSystem::Real();  // The file system of the folder.
  std::shared_ptr<FileSystem> held;         // Owns `files` after Hold(); else null.

  std::string Path(std::string_view file) const;
  // Returns whether the manifest lists the file.
  bool Has(std::string_view file) const;

  // Returns the checkpoint itself, the one that it continues, and so on to a full one.
  // Errors: DATA_LOSS if one is missing, or is not the one that the manifest names, with the
  // remedy.
  StatusOr<std::vector<Checkpoint>> Chain() const;

  // Opens a file that the manifest lists. Errors: DATA_LOSS, naming the file, if it has not the
  // listed size and hash, or no checksums; NOT_FOUND for one that is missing or not listed.
  StatusOr<TensorFileReader> OpenTensors(std::string_view file) const;
  // Reads all bytes of a file without tensors, at most `max_bytes`; otherwise like Open above.
  StatusOr<std::string> ReadText(std::string_view file, uint64_t max_bytes) const;

  // Called with the path of a file in the checkpoint, its bytes read so far and its size.
  using Progress = std::function<void(const std::string& file, uint64_t bytes, uint64_t of)>;
  // Reads all files, and those that the checkpoint continues. Returns the damage, one text per
  // damaged file, which names file, tensor and rows. Errors: of files that cannot be read and may
  // be sound.
  StatusOr<std::vector<std::string>> Verify(const Progress& progress) const;

  // Opens all files, and those that the checkpoint continues: the result's can be read after a
  // training has removed them. With more files than the process may open, the result is a copy.
  // Errors: ABORTED if the checkpoint was removed already.
  StatusOr<Checkpoint> Hold() const;

 private:
  Status CheckListed(const ModelFile& found, std::string_view file) const;
};

// A checkpoint that is being written, in a folder with a temporary name. The destructor removes
// what is not published. Threads: one owner.
class CheckpointAttempt {
 public:
  CheckpointAttempt(CheckpointAttempt&&) noexcept;
  CheckpointAttempt& operator=(CheckpointAttempt&&) = delete;
  ~CheckpointAttempt();

  const std::string& folder() const { return folder_; }
  // Path of a new file such as "rows/clicks/0.safetensors". Creates the folders above it, so that
  // another process can create the file.
  StatusOr<std::string> Path(std::string_view file);

  // Completes the checkpoint and replaces one of the same step, with the deltas that continue that
  // one: an older start has saved them later than the step at which this one began. All files must
  // be synced and closed. `manifest.files` lists the files that other processes have reported: each
  // must be in the folder with this size and hash. Publish adds the other files of the folder, and
  // sets step and generation. Errors: FAILED_PRECONDITION if a newer generation has begun;
  // DATA_LOSS if a reported file is missing or differs; those of FileSystem. After an error there
  // is no new checkpoint, or a complete one if only the last sync or the file `latest` failed.
  StatusOr<Checkpoint> Publish(Manifest manifest);

 private:
  friend class ModelDirectory;
  CheckpointAttempt(FileSystem& files, std::string model, uint64_t step, uint64_t generation,
                    uint32_t retry);

  FileSystem* files_;
  std::string model_;
  uint64_t step_;
  uint64_t generation_;
  std::string folder_;  // Empty after a move or Publish.
};

// The folder of a model and its checkpoints: src/model/FORMAT.md.
//
// A start of training calls NewGeneration, RemoveLeftovers, KeepRun and then Latest. After that no
// older start completes a checkpoint. Newest means: of the highest generation, then of the highest
// step.
//
// Threads: any, but one attempt, RemoveLeftovers or KeepNewest at a time.
class ModelDirectory {
 public:
  // path: of a folder, or a URI.
  explicit ModelDirectory(const std::string& path) : ModelDirectory(path, FileSystem::For(path)) {}
  ModelDirectory(const std::string& path, FileSystem& files);

  const std::string& path() const { return path_; }
  FileSystem& files() const { return files_; }

  // Creates the folder if needed, and in it the file `generation-G` with the next number. No two
  // callers get the same number. above: the number is larger than this one, too.
  StatusOr<uint64_t> NewGeneration(uint64_t above = 0);
  // Returns the number of the newest start; 0 for none. Errors: NOT_FOUND for no folder.
  StatusOr<uint64_t> HighestGeneration();
  // Keeps `proposed` as the number of the model's run, unless another call has kept another one.
  // Returns the kept number. So a start that dies before its first checkpoint leaves its number to
  // the next start. generation: of the caller, here and below. Errors: those of SetBest.
  StatusOr<uint64_t> KeepRun(uint64_t proposed, uint64_t generation);
  // Returns the number that is kept. Errors: NOT_FOUND for none; DATA_LOSS for another text.
  StatusOr<uint64_t> KeptRun();
  // Removes attempts of older generations, and what an interrupted removal has left. From now on
  // older generations complete and remove no checkpoint.
  Status RemoveLeftovers(uint64_t generation);

  // Begins to write the checkpoint of a step. Removes an unfinished attempt of the same step,
  // generation and number. retry: earlier attempts; each has a folder of its own.
  StatusOr<CheckpointAttempt> Begin(uint64_t step, uint64_t generation, uint32_t retry = 0);

  // Returns the steps whose folders exist, ascending, whether valid or not.
  // Errors: NOT_FOUND for no folder.
  StatusOr<std::vector<uint64_t>> Steps();
  // Reads a checkpoint's manifest. Errors: NOT_FOUND, naming the steps there are;
  // FAILED_PRECONDITION for a newer format; DATA_LOSS.
  StatusOr<Checkpoint> Open(uint64_t step);

  // Names the best checkpoint in the file `best`; none removes the file.
  // Errors: FAILED_PRECONDITION if a newer generation has begun; those of FileSystem.
  Status SetBest(std::optional<uint64_t> step, uint64_t generation);
  // Returns the step that the file `best` names; none without the file.
  // Errors: DATA_LOSS for another text.
  StatusOr<std::optional<uint64_t>> BestStep();

  // Returns the step that the file `latest` names; none without the file. Errors: see BestStep.
  StatusOr<std::optional<uint64_t>> LatestStep();
  // Returns the step in the file `pin`, which holds servers of predictions at a checkpoint; none
  // without the file. Errors: INVALID_ARGUMENT for another text.
  StatusOr<std::optional<uint64_t>> PinnedStep();

  // Returns the file history.jsonl. Errors: NOT_FOUND for none.
  StatusOr<std::string> ReadHistory();
  // Replaces the file. Errors: those of SetBest.
  Status WriteHistory(std::string_view text, uint64_t generation);

  struct Newest {
    Checkpoint checkpoint;
    std::vector<std::string> warnings;  // One for each damaged checkpoint that was left out.
  };
  // Returns the newest checkpoint whose manifest is valid and whose files fit it, as do those of
  // the checkpoints that it continues. Reads the headers and checksums of all files, and all of
  // those that have no rows of tables. Errors: NOT_FOUND if there is no checkpoint; DATA_LOSS if
  // all are damaged, with the reasons; FAILED_PRECONDITION for one of a newer format, and those of
  // files that cannot be read, which are not damage.
  StatusOr<Newest> Latest();
  // Renames a damaged checkpoint to step-N.damaged, so that the next start takes an older one.
  // Errors: FAILED_PRECONDITION if there is no other one.
  Status SetAside(uint64_t step);
  // Returns the checkpoint at `path`, MODEL/step-N, or the newest one of the model at `path`. The
  // result's folder is absolute. Errors: those of Latest and Open.
  static StatusOr<Newest> Find(const std::string& path);
  // Returns a model's best checkpoint if there is one; otherwise like Find.
  static StatusOr<Newest> FindBest(const std::string& path);
  // Returns what `find` finds, held: see Checkpoint::Hold(). Calls `find` again while a training
  // replaces it. Errors: those of `find` and Hold().
  static StatusOr<Newest> FindHeld(absl::FunctionRef<StatusOr<Newest>()> find);

  // Renews the checksums of manifests that a person has edited, and those that deltas have of
  // these. Requires that no training saves to the folder. Returns the steps whose manifests have
  // changed. Errors: DATA_LOSS for a text that is no manifest, and then nothing has changed.
  StatusOr<std::vector<uint64_t>> Seal();

  // Removes valid checkpoints but the newest `count`, those of `except`, the pinned one, and the
  // parents that these need. Damaged ones stay. An interrupted removal leaves no damaged
  // checkpoint. Errors: those of SetBest.
  Status KeepNewest(size_t count, const std::set<uint64_t>& except, uint64_t generation);

 private:
  StatusOr<std::optional<uint64_t>> NamedStep(const char* file);
  StatusOr<Newest> LookForLatest();

  const std::string path_;
  FileSystem& files_;
};

}  // namespace simurgh
