#include <fstream>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "absl/strings/str_cat.h"

#include "config/file.h"
#include "config/map_reader.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxFileWords = 4'194'304;
constexpr size_t kMaxWordBytes = 1'024;
constexpr size_t kShownBytes = 64;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";  // This mark is not part of the text.

// Returns the problem of the lines with its remedy, or an empty string.
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
    if (number > kMaxFileWords) {
      return absl::StrCat(place, "more than ", kMaxFileWords, " values; leave out the rarest");
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

// Reads the file of `key`, one value per line, unless there are words already. Resolves the path in
// `folder`. Reports empty, long and repeated lines by number.
void ReadVocabularyFile(MapReader& in, const std::string& key, const std::string& folder,
                        std::vector<std::string>* words) {
  std::string path;
  // The setting is the content, which only processes that read the data have.
  in.For(Scope::kInput | Scope::kTraining | Scope::kModel)
      ->Text(key, "file with one value per line, instead of `vocabulary`; the first has id 0",
             &path, "path of a file with one value per line");
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

constexpr size_t kMaxBoundaries = 65'536;
constexpr size_t kMaxWords = 65'536;
constexpr uint32_t kMaxQuantiles = 1'024;
constexpr uint32_t kMaxListLength = 65'535;
constexpr uint64_t kMaxIds = uint64_t{1} << 40;

using Hash = ProcessingConfig::Hash;
using Missing = ProcessingConfig::Missing;
using Keep = ProcessingConfig::Keep;
using Date = ProcessingConfig::Date;

void ReadBoundaries(MapReader& in, std::vector<double>* boundaries) {
  std::vector<std::string> texts;
  in.Texts(
      "boundaries",
      "ascending bounds instead of a hash; the id is the number of bounds at or below the value",
      &texts, {0, kMaxBoundaries}, Need::kOptional, "ascending numbers",
      [](const std::string& text) -> std::string {
        double value = 0.0;
        if (ParseNumber(text, &value) == NumberFault::kNone) return "";
        return absl::StrCat("'", text, "' is not a finite number");
      });
  for (const std::string& text : texts) {
    double value = 0.0;
    ParseNumber(text, &value);
    if (!boundaries->empty() && value <= boundaries->back()) {
      in.Error(absl::StrCat("boundaries.", boundaries->size()),
               absl::StrCat(text, " is not above the previous one"), "give ascending boundaries");
    }
    boundaries->push_back(value);
  }
}

// Returns whether a vocabulary is given. The words of a file may not have been read.
bool HasVocabulary(const MapReader& in, const ProcessingConfig& processing) {
  return !processing.vocabulary.empty() || in.Has("vocabulary_file");
}

void ReadVocabulary(MapReader& in, const std::string& folder, ProcessingConfig* processing) {
  in.Texts("vocabulary", "texts with ids from 0 in this order, instead of a hash",
           &processing->vocabulary, {0, kMaxWords}, Need::kOptional);
  in.When(HasVocabulary(in, *processing), "give vocabulary")
      ->Integer("oov_ids",
                "number of ids for texts outside the vocabulary, chosen by hash; 0: such texts are "
                "dropped",
                &processing->oov_ids, 0, kMaxIds);
  in.context()->diagnostics.CheckDistinct(processing->vocabulary, std::identity(), [&](size_t i) {
    return in.PathOf(absl::StrCat("vocabulary.", i));
  });
  const auto when = in.When(processing->vocabulary.empty(), "leave out vocabulary");
  ReadVocabularyFile(in, "vocabulary_file", folder, &processing->vocabulary);
}

}  // namespace

void ReadPlugin(MapReader& in, const std::string& folder, PluginConfig* plugin, uint32_t* max_ids) {
  in.Map("plugin", [&](MapReader& map) {
    map.Text("path", "shared object that turns cells into values, see Plug-ins", &plugin->path,
             "path of a shared object");
    {
      const auto when = map.When(map.Has("path"), "give path");
      map.Texts("parameters", "texts passed to the plug-in", &plugin->parameters, {0, 1'024},
                Need::kOptional);
      if (max_ids != nullptr) {
        map.Integer("max_ids", "maximum number of ids per sample; more make a bad row", max_ids, 1,
                    65'536);
      }
    }
    if (plugin->path.empty()) return;
    ResolveInputFile(map, "path", folder, &plugin->path);
    map.Record("path", FileName(plugin->path));
  });
}

void ReadProcessing(MapReader& in, const std::string& folder, bool is_crossed,
                    ProcessingConfig* processing) {
  ReadPlugin(in, folder, &processing->plugin, &processing->plugin.max_ids);
  in.Choice<Hash>("hash", "function from value to id, see Features", &processing->hash,
                  {{"auto", Hash::kAuto},
                   {"text", Hash::kText},
                   {"integer", Hash::kInteger},
                   {"none", Hash::kNone}});
  in.Integer("seed", "hash seed; features with different seeds have different ids for one value",
             &processing->seed, 0, kMaxIds);
  in.Choice<Date>("date", "part of a date that is the id, see Data files", &processing->date,
                  {{"none", Date::kNone}, {"hour", Date::kHour}, {"weekday", Date::kWeekday}});
  ReadBoundaries(in, &processing->boundaries);
  in.Integer("quantiles",
             "number of equal-sized ranges of the training data's values, instead of a hash; 0: "
             "off, see Statistics",
             &processing->quantiles, 0, kMaxQuantiles);
  ReadVocabulary(in, folder, processing);
  in.Choice<Missing>("missing",
                     "treatment of a sample without ids: zeros, a reserved id or a bad row",
                     &processing->missing,
                     {{"skip", Missing::kSkip}, {"id", Missing::kId}, {"fail", Missing::kFail}});
  in.Integer("max_length", "maximum number of ids per sample; 0: no limit", &processing->max_length,
             0, kMaxListLength);
  {
    const auto when = in.When(processing->max_length > 0, "give max_length");
    in.Choice<Keep>("keep", "with `max_length`: part kept of a longer list", &processing->keep,
                    {{"first", Keep::kFirst}, {"last", Keep::kLast}});
    in.Bool("pad", "with `max_length`: whether a reserved id fills shorter lists",
            &processing->pad);
  }
  in.Integer("modulo", "modulus of ids, except those of `missing` and `pad`; 0: off",
             &processing->modulo, 0, kMaxIds);

  // The ways to an id exclude each other, and some are declared after the keys that they disable.
  in.OnlyWith(
      processing->date == Date::kNone, "leave out date",
      {"plugin", "boundaries", "quantiles", "vocabulary", "vocabulary_file", "hash", "seed"});
  in.OnlyWith(!is_crossed, "use one column",
              {"date", "boundaries", "quantiles", "vocabulary", "vocabulary_file"});
  in.OnlyWith(processing->plugin.path.empty(), "leave out plugin",
              {"boundaries", "quantiles", "vocabulary", "vocabulary_file", "hash", "seed"});
  in.OnlyWith(processing->boundaries.empty(), "leave out boundaries",
              {"quantiles", "vocabulary", "vocabulary_file", "hash"});
  in.OnlyWith(processing->quantiles == 0, "leave out quantiles",
              {"vocabulary", "vocabulary_file", "hash"});
  in.OnlyWith(!HasVocabulary(in, *processing), "leave out vocabulary", {"hash"});
  in.OnlyWith(processing->boundaries.empty() && processing->quantiles == 0 &&
                  (is_crossed || processing->hash != Hash::kNone),
              "hash the feature's values", {"seed"});
  if (processing->quantiles == 1) {
    in.Error("quantiles", "1 is out of range", "use 2 to 1024, or 0");
  }
}

}  // namespace simurgh
