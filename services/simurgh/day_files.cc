#include "services/simurgh/day_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;

bool IsUnfinished(const std::string& name) {
  return name.starts_with('.') || name.starts_with('_') || name.ends_with(".tmp") ||
         name.ends_with(".part");
}

std::vector<std::string> FilesIn(const DataConfig& data, const std::string& folder) {
  if (IsArrow(data)) return NamedFiles(data.format, folder);
  std::vector<std::string> files;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(folder, failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    if (entry->is_regular_file(failed)) files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

// Returns the folder of a pattern, up to its first wildcard.
std::string FolderOf(const std::string& pattern) {
  return fs::path(pattern.substr(0, pattern.find_first_of("*?["))).parent_path();
}

}  // namespace

StatusOr<DayFiles> FindDayFiles(const DataConfig& data, const std::vector<std::string>& words,
                                std::chrono::seconds settled) {
  DayFiles all;
  std::map<std::string, size_t> places;  // Index of each path in `all`.
  for (const std::string& word : words) {
    std::error_code ignored;
    const std::string path =
        IsRemoteFile(word) ? word : fs::absolute(word, ignored).lexically_normal().string();
    const bool is_folder = fs::is_directory(path, ignored);
    const bool is_pattern =
        !is_folder && !fs::exists(path, ignored) && word.find_first_of("*?[") != word.npos;
    if (!is_folder && !is_pattern && !IsRemoteFile(word) && !fs::exists(path, ignored)) {
      return absl::InvalidArgumentError(absl::StrCat(
          word,
          ": no such file; name a file, a folder or a pattern in quotes, such as 'days/*.csv'"));
    }
    if (is_pattern && !IsRemoteFile(word) && !fs::is_directory(FolderOf(path), ignored)) {
      return absl::InvalidArgumentError(
          absl::StrCat(word, ": no such folder: ", FolderOf(path), "; correct or create it"));
    }
    all.are_collected = all.are_collected || is_folder || is_pattern;
    std::vector<std::string> found = is_folder    ? FilesIn(data, path)
                                     : is_pattern ? NamedFiles(data.format, path)
                                                  : std::vector{path};
    std::erase_if(found, [&](const std::string& file) {
      if (!is_folder && !is_pattern) return false;
      if (IsUnfinished(fs::path(file).filename()) || !fs::exists(file, ignored)) return true;
      return settled.count() > 0 &&
             fs::last_write_time(file, ignored) + settled > fs::file_time_type::clock::now();
    });
    SIMURGH_ASSIGN_OR_RETURN(std::vector<DataFile> identities, IdentifyFiles(found));
    if (identities.size() != found.size()) {  // The word names a folder of an object store.
      return absl::InvalidArgumentError(
          absl::StrCat(word, ": names ", identities.size(), " files; name each of them"));
    }
    for (size_t i = 0; i < found.size(); ++i) {
      const auto [place, is_new] = places.emplace(found[i], all.files.size());
      if (is_new) all.files.push_back({std::move(found[i]), std::move(identities[i])});
      if (!is_folder && !is_pattern) all.files[place->second].is_named = true;
    }
  }
  return all;
}

const DataFile* FindContent(const DataFile& file, const std::vector<DataFile>& files) {
  const auto found = std::ranges::find_if(files, [&](const DataFile& other) {
    // A renamed file keeps its time. Files of object stores have no hash of their ends.
    return other == file || (file.ends != 0 && other.bytes == file.bytes &&
                             other.ends == file.ends && other.modified_ns == file.modified_ns);
  });
  return found == files.end() ? nullptr : &*found;
}

StatusOr<std::vector<DayFile>> FindAgain(const std::vector<DataFile>& read,
                                         const std::vector<std::string>& paths) {
  std::vector<DayFile> files;
  for (size_t i = 0; i < read.size(); ++i) {
    const std::string path = i < paths.size() ? paths[i] : read[i].name;
    const auto found = IdentifyFiles({path});
    if (!found.ok() || found->size() != 1 || found->front() != read[i]) {
      return absl::NotFoundError(absl::StrCat(path, " is gone or has changed"));
    }
    files.push_back({path, read[i]});
  }
  return files;
}

}  // namespace simurgh
