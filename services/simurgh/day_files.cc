#include "services/simurgh/day_files.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "config/uri.h"
#include "data/reading/remote_file.h"

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

// The files of a word.
struct Found {
  std::vector<std::string> files;
  std::vector<DataFile> identities;
  bool is_named = false;  // The word is the name of its only file.
};

StatusOr<Found> Identified(std::vector<std::string> files, bool is_named) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<DataFile> identities, IdentifyFiles(files));
  return Found{std::move(files), std::move(identities), is_named};
}

// Returns the files of a path or pattern of this machine.
StatusOr<Found> FindLocal(const DataConfig& data, const std::string& word,
                          std::chrono::seconds settled) {
  std::error_code ignored;
  const std::string path = fs::absolute(word, ignored).lexically_normal().string();
  const bool is_folder = fs::is_directory(path, ignored);
  const bool is_pattern =
      !is_folder && !fs::exists(path, ignored) && word.find_first_of("*?[") != word.npos;
  if (!is_folder && !is_pattern) {
    if (fs::exists(path, ignored)) return Identified({path}, true);
    return absl::InvalidArgumentError(absl::StrCat(
        word,
        ": no such file; name a file, a folder or a pattern in quotes, such as 'days/*.csv'"));
  }
  if (is_pattern && !fs::is_directory(FolderOf(path), ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat(word, ": no such folder: ", FolderOf(path), "; correct or create it"));
  }
  std::vector<std::string> files = is_folder ? FilesIn(data, path) : NamedFiles(data.format, path);
  std::erase_if(files, [&](const std::string& file) {
    if (IsUnfinished(fs::path(file).filename()) || !fs::exists(file, ignored)) return true;
    return settled.count() > 0 &&
           fs::last_write_time(file, ignored) + settled > fs::file_time_type::clock::now();
  });
  return Identified(std::move(files), false);
}

// Returns the files of a URI. Those of an object store are complete as soon as they are there.
StatusOr<Found> FindRemote(const std::string& word) {
  Found found;
  auto files = ListRemoteFiles(word);
  const bool is_pattern = WithoutOptions(word).find_first_of("*[") != word.npos;
  if (is_pattern && absl::IsNotFound(files.status())) return found;
  SIMURGH_RETURN_IF_ERROR(files.status());
  found.is_named = files->size() == 1 && files->front().path == word;
  for (RemoteFile& file : *files) {
    DataFile identity = DataFileOf(file);
    if (!found.is_named && IsUnfinished(identity.name)) continue;
    found.files.push_back(std::move(file.path));
    found.identities.push_back(std::move(identity));
  }
  return found;
}

}  // namespace

StatusOr<DayFiles> FindDayFiles(const DataConfig& data, const std::vector<std::string>& words,
                                std::chrono::seconds settled) {
  DayFiles all;
  std::map<std::string, size_t> places;  // Index of each path in `all`.
  for (const std::string& word : words) {
    SIMURGH_ASSIGN_OR_RETURN(Found found,
                             IsUri(word) ? FindRemote(word) : FindLocal(data, word, settled));
    all.are_collected = all.are_collected || !found.is_named;
    for (size_t i = 0; i < found.files.size(); ++i) {
      const auto [place, is_new] = places.emplace(found.files[i], all.files.size());
      if (is_new) all.files.push_back({std::move(found.files[i]), std::move(found.identities[i])});
      if (found.is_named) all.files[place->second].is_named = true;
    }
  }
  return all;
}

const DataFile* FindContent(const DataFile& file, const std::vector<DataFile>& files) {
  const auto found = std::ranges::find_if(files, [&](const DataFile& other) {
    // Files of object stores have no hash of their ends. Those of two days can have one name.
    if (file.ends == 0) return other == file && other.modified_ns == file.modified_ns;
    // A renamed file keeps its time.
    return other == file || (other.bytes == file.bytes && other.ends == file.ends &&
                             other.modified_ns == file.modified_ns);
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
