#include "config/vocabulary_file.h"

#include <fstream>
#include <string_view>
#include <unordered_map>

#include "absl/strings/str_cat.h"

#include "config/file.h"

namespace simurgh {
namespace {

constexpr size_t kMaxWords = 4'194'304;
constexpr size_t kMaxWordBytes = 1'024;
constexpr size_t kShownBytes = 64;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // Not part of the text.

// The problem of the lines with its remedy, or an empty string.
std::string LinesProblem(std::istream& file, std::vector<std::string>* words) {
  std::unordered_map<std::string, size_t> line_of;
  for (std::string line; std::getline(file, line);) {
    if (words->empty() && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const size_t number = words->size() + 1;
    const std::string place = absl::StrCat("line ", number, ": ");
    if (line.empty()) return absl::StrCat(place, "empty; give one value per line");
    if (line.size() > kMaxWordBytes) {
      return absl::StrCat(place, "'", line.substr(0, kShownBytes), "...' has ", line.size(),
                          " bytes, more than ", kMaxWordBytes, "; shorten it");
    }
    if (number > kMaxWords) {
      return absl::StrCat(place, "more than ", kMaxWords, " values; leave out the rarest");
    }
    const auto [entry, is_new] = line_of.emplace(line, number);
    if (!is_new) {
      return absl::StrCat(place, "'", line.substr(0, kShownBytes), "' repeats line ", entry->second,
                          "; give every value once");
    }
    words->push_back(line);
  }
  if (file.bad()) return "cannot be read completely; check the disk";
  return words->empty() ? "no values; give one per line" : "";
}

}  // namespace

void ReadVocabularyFile(MapReader& in, const std::string& key, const std::string& folder,
                        std::vector<std::string>* words) {
  std::string path;
  in.Text(key, "file with one value per line, instead of `vocabulary`; the first has id 0", &path,
          "path of a file with one value per line");
  if (path.empty() || !words->empty()) return;
  if (!ResolveInputFile(in, key, folder, &path)) return;
  std::ifstream file(path, std::ios::binary);
  const std::string problem = LinesProblem(file, words);
  if (problem.empty()) {
    in.Record(key, TextsText(*words));
    return;
  }
  const size_t remedy = problem.rfind("; ");
  in.Error(key, absl::StrCat("'", path, "', ", problem.substr(0, remedy)),
           problem.substr(remedy + 2));
}

}  // namespace simurgh
