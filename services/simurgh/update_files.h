#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "model/model_directory.h"
#include "services/nn_worker/model_update.h"
#include "services/simurgh/day_files.h"

namespace simurgh {

// The files that one update trains on.
struct UpdateFiles {
  std::vector<DayFile> files;
  std::string id;        // Id of the interrupted update that it continues; empty: it begins.
  bool repeats = false;  // True: some files have been trained on before.
};

// Chooses the files of the updates of one command: those of an interrupted update, then those of
// --data on which the model has not been trained. Prints on stderr what it leaves out.
//
// Threads: one owner.
class UpdateQueue {
 public:
  // data: values of --data. follows: further files are expected.
  UpdateQueue(std::vector<std::string> data, bool follows)
      : data_(std::move(data)), follows_(follows) {}

  // Returns the files of the next update. Errors: INVALID_ARGUMENT for --data that names no file,
  // or nothing to follow.
  StatusOr<UpdateFiles> Next(const DataConfig& data, ModelDirectory& directory,
                             const Manifest& manifest);

  // Notes that an update with these files failed because of their rows. Leaves a single file out,
  // until it changes. Several files are retried one by one.
  void Refuse(const UpdateFiles& update, const std::string& problem);

  // Notes that an update with these files has ended.
  void Finish(const UpdateFiles& update);

  // Returns whether Next() has files that an interrupted update had not.
  bool has_more() const { return has_more_; }

 private:
  // Returns the interrupted update; nothing if its files are gone, or there is none.
  static std::optional<UpdateFiles> Interrupted(const std::optional<ModelUpdate>& update,
                                                uint64_t step, bool is_dropped, bool tells);
  // Returns the files of --data that are new.
  UpdateFiles NewFiles(std::vector<DayFile> found, const std::vector<DataFile>& trained);

  const std::vector<std::string> data_;
  const bool follows_;
  bool is_first_ = true;
  bool has_more_ = false;
  bool has_trained_ = false;
  bool is_one_by_one_ = false;
  std::vector<DataFile> refused_;
  std::set<std::string> done_;  // Paths of the files of this command's updates.
  std::set<std::string> told_;  // Paths of files that are left out because of their content.
};

}  // namespace simurgh
