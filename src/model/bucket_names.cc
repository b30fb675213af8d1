#include "model/bucket_names.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "model/json.h"

namespace simurgh {
namespace {

constexpr uint64_t kFormatVersion = 1;
constexpr size_t kKeptChanges = 64;

Status NotFound(const std::string& path) {
  return absl::NotFoundError(absl::StrCat(path, ": there is no such file or folder"));
}

Status Exists(const std::string& path) {
  return absl::AlreadyExistsError(absl::StrCat(path, ": it exists already"));
}

bool IsBelow(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

StatusOr<std::map<std::string, std::string>> Texts(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) {
    return absl::DataLossError(absl::StrCat(key, ": there is no such object"));
  }
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) return absl::DataLossError(absl::StrCat(key, ".", name, ": no text"));
    texts.emplace(name, value.get<std::string>());
  }
  return texts;
}

}  // namespace

bool BucketNames::Keeps(std::string_view path) {
  return path == "latest" || path == "best" || path == "run" || path.starts_with("generation-");
}

StatusOr<BucketNames> BucketNames::FromJson(std::string_view text) {
  SIMURGH_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text));
  const auto version = json.find("format_version");
  if (version == json.end() || !version->is_number_unsigned()) {
    return absl::DataLossError("format_version: there is none; the object is no model's");
  }
  if (version->get<uint64_t>() != kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat("format_version: ", version->get<uint64_t>(),
                                                      "; this program reads ", kFormatVersion,
                                                      "; use the program that wrote the model"));
  }
  BucketNames names;
  SIMURGH_ASSIGN_OR_RETURN(names.files_, Texts(json, "files"));
  SIMURGH_ASSIGN_OR_RETURN(names.folders_, Texts(json, "folders"));
  std::set<std::string> prefixes;
  for (const auto& [path, prefix] : names.folders_) {
    const bool is_plain = !prefix.empty() && prefix.find('/') == prefix.npos;
    if (!is_plain || !prefixes.insert(prefix).second) {
      return absl::DataLossError(absl::StrCat("folders.", path, ": '", prefix,
                                              "' is not the prefix of this folder alone"));
    }
  }
  const auto changes = json.find("changes");
  if (changes == json.end() || !changes->is_array()) {
    return absl::DataLossError("changes: there is no such list");
  }
  for (const Json& change : *changes) {
    if (!change.is_string()) return absl::DataLossError("changes: not a list of texts");
    names.changes_.push_back(change.get<std::string>());
  }
  return names;
}

std::string BucketNames::ToJson() const {
  return JsonText({{"format_version", kFormatVersion},
                   {"files", Json(files_)},
                   {"folders", Json(folders_)},
                   {"changes", changes_}},
                  1) +
         "\n";
}

std::vector<std::string> BucketNames::In(std::string_view folder) const {
  std::set<std::string> names;
  const auto add = [&](const std::string& path, std::string_view end) {
    if (!folder.empty() && !IsBelow(path, folder)) return;
    const std::string below = path.substr(folder.empty() ? 0 : folder.size() + 1);
    if (below.find('/') == below.npos) names.insert(below + std::string(end));
  };
  for (const auto& [path, text] : files_) add(path, "");
  for (const auto& [path, prefix] : folders_) add(path, "/");
  return {names.begin(), names.end()};
}

std::string BucketNames::ObjectOf(std::string_view path) const {
  // The longest folder decides: a folder can be in another one.
  for (size_t end = path.size(); end > 0;) {
    const auto found = folders_.find(std::string(path.substr(0, end)));
    if (found != folders_.end()) {
      return absl::StrCat(found->second, std::string(path.substr(end)));
    }
    const size_t slash = path.rfind('/', end - 1);
    end = slash == path.npos ? 0 : slash;
  }
  return "";
}

Status BucketNames::AddFile(const std::string& path, std::string_view text) {
  return files_.emplace(path, text).second ? absl::OkStatus() : Exists(path);
}

void BucketNames::SetFile(const std::string& path, std::string_view text) { files_[path] = text; }

Status BucketNames::AddFolder(const std::string& path, std::string prefix) {
  if (folders_.contains(path)) return Exists(path);
  const size_t slash = path.rfind('/');
  if (slash != path.npos && !folders_.contains(path.substr(0, slash))) {
    return NotFound(path.substr(0, slash));
  }
  folders_.emplace(path, std::move(prefix));
  return absl::OkStatus();
}

std::map<std::string, std::string> BucketNames::TakeFolder(const std::string& path) {
  std::map<std::string, std::string> taken;
  for (auto at = folders_.begin(); at != folders_.end();) {
    if (at->first == path || IsBelow(at->first, path)) {
      taken.emplace(at->first.substr(path.size()), at->second);
      at = folders_.erase(at);
    } else {
      ++at;
    }
  }
  return taken;
}

void BucketNames::PutFolder(const std::string& path,
                            const std::map<std::string, std::string>& folders) {
  for (const auto& [below, prefix] : folders) folders_.emplace(path + below, prefix);
}

std::vector<std::string> BucketNames::Remove(const std::string& path) {
  files_.erase(path);
  std::vector<std::string> prefixes;
  for (auto& [below, prefix] : TakeFolder(path)) prefixes.push_back(prefix);
  return prefixes;
}

Status BucketNames::Rename(const std::string& from, const std::string& to) {
  if (!folders_.contains(from)) return NotFound(from);
  if (folders_.contains(to)) return Exists(to);
  const size_t slash = to.rfind('/');
  if (slash != to.npos && !folders_.contains(to.substr(0, slash))) {
    return NotFound(to.substr(0, slash));
  }
  PutFolder(to, TakeFolder(from));
  return absl::OkStatus();
}

Status BucketNames::Exchange(const std::string& a, const std::string& b) {
  if (!folders_.contains(a)) return NotFound(a);
  if (!folders_.contains(b)) return NotFound(b);
  const auto of_a = TakeFolder(a);
  PutFolder(a, TakeFolder(b));
  PutFolder(b, of_a);
  return absl::OkStatus();
}

void BucketNames::NoteChange(std::string number) {
  changes_.push_back(std::move(number));
  if (changes_.size() > kKeptChanges) changes_.erase(changes_.begin());
}

bool BucketNames::HasChange(std::string_view number) const {
  return std::ranges::find(changes_, number) != changes_.end();
}

}  // namespace simurgh
