#include "services/simurgh/update_files.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "services/simurgh/commands.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kSettled{5};

// Warns of files whose names were trained on with another content. All files must be of one folder,
// because the same name in another folder can be another file.
void WarnOfNames(const std::vector<DayFile>& files, const std::vector<DataFile>& trained) {
  const auto folder = [](const DayFile& file) { return fs::path(file.path).parent_path(); };
  for (const DayFile& file : files) {
    if (folder(file) != folder(files.front())) return;
  }
  for (const DayFile& file : files) {
    if (file.is_named && FindContent(file.identity, trained) != nullptr) continue;
    if (std::ranges::find(trained, file.identity.name, &DataFile::name) == trained.end()) continue;
    PrintWarnings({absl::StrCat(file.path,
                                ": it has changed since the model was trained on it; all of its "
                                "rows count as new")});
  }
}

StatusOr<std::vector<DataFile>> FilesOfTraining(const Manifest& manifest) {
  const auto found = manifest.extra.find("train.files");
  if (found == manifest.extra.end()) return std::vector<DataFile>();
  return DataFilesFromText(found->second);
}

}  // namespace

std::optional<UpdateFiles> UpdateQueue::Interrupted(const std::optional<ModelUpdate>& update,
                                                    uint64_t step, bool is_dropped, bool tells) {
  if (!update || update->is_done) return std::nullopt;
  StatusOr<std::vector<DayFile>> files = FindAgain(update->files, update->paths);
  if (files.ok()) {
    std::cerr << "simurgh: continuing the update that was interrupted at step " << step
              << std::endl;
    return UpdateFiles{.files = *std::move(files), .id = update->id};
  }
  if (tells) {
    PrintWarnings(
        {absl::StrCat("an update was interrupted at step ", step,
                      ", and cannot continue: ", files.status().message(),
                      is_dropped ? "; its steps are dropped"
                                 : "; the model keeps its steps. Other rows of files that it has "
                                   "begun are not trained")});
  }
  return std::nullopt;
}

UpdateFiles UpdateQueue::NewFiles(std::vector<DayFile> found,
                                  const std::vector<DataFile>& trained) {
  UpdateFiles update;
  std::vector<DataFile> contents = trained;  // Trained files, then those of the update.
  std::vector<std::string> renamed;
  for (DayFile& file : found) {
    const bool is_refused = std::ranges::any_of(refused_, [&](const DataFile& other) {
      return other == file.identity && other.modified_ns == file.identity.modified_ns;
    });
    if (is_refused || (is_one_by_one_ && !update.files.empty())) continue;
    const DataFile* const known = FindContent(file.identity, contents);
    if (file.is_named) {
      if (done_.contains(file.path)) continue;
      if (known != nullptr && known < contents.data() + trained.size()) {
        update.repeats = true;
        PrintWarnings(
            {absl::StrCat(file.path, ": the model has been trained on it; its rows count again")});
      }
    } else if (known != nullptr) {
      if (known->name != file.identity.name && told_.insert(file.path).second) {
        renamed.push_back(absl::StrCat(file.path, " is ", known->name));
      }
      continue;
    }
    const auto alike = std::ranges::find_if(contents, [&](const DataFile& other) {
      return other.ends != 0 && other.bytes == file.identity.bytes &&
             other.ends == file.identity.ends;
    });
    if (known == nullptr && alike != contents.end()) {
      PrintWarnings({absl::StrCat(file.path, ": looks like ", alike->name,
                                  ", but is not it renamed; its rows count as new")});
    }
    contents.push_back(file.identity);
    update.files.push_back(std::move(file));
  }
  if (!renamed.empty()) {
    constexpr size_t kShown = 3;
    std::cerr << "simurgh: left out " << renamed.size() << " of --data with the content of files "
              << "that count already: "
              << absl::StrJoin(
                     renamed.begin(),
                     renamed.begin() + std::min<std::ptrdiff_t>(kShown, std::ssize(renamed)), ", ")
              << (renamed.size() > kShown ? ", ..." : "") << std::endl;
  }
  WarnOfNames(update.files, trained);
  return update;
}

StatusOr<UpdateFiles> UpdateQueue::Next(const DataConfig& data, ModelDirectory& directory,
                                        const Manifest& manifest) {
  SIMURGH_ASSIGN_OR_RETURN(
      DayFiles found, FindDayFiles(data, data_, follows_ ? kSettled : std::chrono::seconds(0)));
  if (follows_ && !found.are_collected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--follow needs a folder or a pattern; add one to --data, or leave --follow out"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<ModelUpdate> before, ReadUpdate(manifest));
  const bool is_first = std::exchange(is_first_, false);
  // An update continues with the best checkpoint, if there is one.
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, directory.BestStep());
  const bool is_dropped = best && *best != manifest.step;
  std::optional<UpdateFiles> interrupted =
      Interrupted(before, manifest.step, is_dropped, /*tells=*/is_first);
  has_more_ = interrupted.has_value();
  if (interrupted) return *std::move(interrupted);
  SIMURGH_ASSIGN_OR_RETURN(std::vector<DataFile> trained, FilesOfTraining(manifest));
  if (before) {
    const bool drops = !before->is_done && is_dropped;
    std::ranges::move(drops ? before->trained : TrainedFiles(*before), std::back_inserter(trained));
  }
  const size_t all = found.files.size();
  UpdateFiles update = NewFiles(std::move(found.files), trained);
  if (update.files.empty() && (follows_ ? is_first : !has_trained_)) {
    std::cerr << "simurgh: nothing was trained: "
              << (all == 0 ? "no file matches --data"
                           : absl::StrCat("all ", all, " files of --data have been trained on"))
              << (follows_ ? "; waiting for files" : "; name others, or use --follow") << std::endl;
  }
  return update;
}

void UpdateQueue::Refuse(const UpdateFiles& update, const std::string& problem) {
  if (update.files.size() > 1) {
    std::cerr << "simurgh: the new files cannot be read together: " << problem
              << "; trying them one by one" << std::endl;
    is_one_by_one_ = true;
    return;
  }
  PrintWarnings(
      {absl::StrCat(update.files.front().path, " is left out until it changes: ", problem)});
  refused_.push_back(update.files.front().identity);
}

void UpdateQueue::Finish(const UpdateFiles& update) {
  has_trained_ = true;
  for (const DayFile& file : update.files) done_.insert(file.path);
}

}  // namespace simurgh
