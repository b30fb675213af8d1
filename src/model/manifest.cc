#include "model/manifest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "model/json.h"

namespace simurgh {
namespace {

// A manifest with a checksum begins with kBefore, 16 digits and kAfter. The digits are the hash of
// all that follows.
constexpr char kBefore[] = "{\n \"checksum\": \"";
constexpr char kAfter[] = "\",\n";

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// JSON has no numbers that are not finite.
Json NumberJson(double number) {
  if (std::isfinite(number)) return number;
  return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
}

std::string HashText(uint64_t hash) { return absl::StrCat(absl::Hex(hash, absl::kZeroPad16)); }

std::string HeadOf(std::string_view rest) {
  return absl::StrCat(kBefore, HashText(HashBytes(rest)), kAfter);
}

// Reads the keys of one object. Keeps the first problem; what is read afterwards is zero.
class ObjectReader {
 public:
  ObjectReader(const Json& object, std::string prefix, Status* status)
      : object_(object), prefix_(std::move(prefix)), status_(*status) {}

  // Null after a problem.
  const Json* Find(const char* key, bool (*is_right)(const Json&), const char* expected) {
    known_.insert(key);
    const auto found = object_.find(key);
    if (found == object_.end()) return Refuse(absl::StrCat(prefix_, key), "the key is missing");
    if (!is_right(*found)) return Refuse(absl::StrCat(prefix_, key), expected);
    return &*found;
  }
  const Json* Object(const char* key) {
    return Find(key, [](const Json& value) { return value.is_object(); }, "not an object");
  }
  const Json* Array(const char* key) {
    return Find(key, [](const Json& value) { return value.is_array(); }, "not a list");
  }
  uint64_t Unsigned(const char* key) {
    const Json* value = Find(
        key, [](const Json& one) { return one.is_number_unsigned(); }, "not a number from 0 on");
    return value == nullptr ? 0 : value->get<uint64_t>();
  }
  std::string Text(const char* key) {
    const Json* value = Find(key, [](const Json& one) { return one.is_string(); }, "not a text");
    return value == nullptr ? "" : value->get<std::string>();
  }
  uint64_t Hash(const char* key) {
    const std::string text = Text(key);
    uint64_t hash = 0;
    if (text.size() != 16 || !absl::SimpleHexAtoi(text, &hash)) {
      Refuse(absl::StrCat(prefix_, key), "not a hash of 16 hexadecimal digits");
    }
    return hash;
  }
  double Number(const std::string& where, const Json& value) {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return kInfinity;
    if (value == "-inf") return -kInfinity;
    Refuse(where, "not a number");
    return 0;
  }
  const Json* Refuse(const std::string& where, const char* what) {
    status_.Update(absl::DataLossError(absl::StrCat(where, ": ", what)));
    return nullptr;
  }
  void RefuseOtherKeys() {
    for (const auto& [key, value] : object_.items()) {
      if (!known_.contains(key)) Refuse(prefix_ + key, "the key is not of this format version");
    }
  }

 private:
  const Json& object_;
  const std::string prefix_;
  Status& status_;
  std::set<std::string> known_;
};

// Returns whether a path is that of a file inside the checkpoint's folder.
bool IsInside(const std::string& path) {
  return !path.empty() && path != "manifest.json" &&
         !absl::StrContains(absl::StrCat("/", path, "/"), "/../") && !path.starts_with('/');
}

ModelFile ReadFileEntry(const Json& entry, const std::string& where, Status* status) {
  const Json empty = Json::object();
  ObjectReader keys(entry.is_object() ? entry : empty, where + ".", status);
  ModelFile file{keys.Text("path"), keys.Unsigned("bytes"), keys.Hash("hash")};
  if (!IsInside(file.path)) keys.Refuse(where + ".path", "not a path inside the checkpoint");
  keys.RefuseOtherKeys();
  return file;
}

}  // namespace

std::string Manifest::ToJson() const {
  Json json = {{"format_version", kFormatVersion},
               {"run", run},
               {"generation", generation},
               {"step", step},
               {"samples", samples},
               {"step_time", step_time},
               {"kind", parent.has_value() ? "delta" : "full"},
               {"position", absl::Base64Escape(position)},
               {"metrics", Json::object()},
               {"config", Json::array()},
               {"statistics", Json::object()},
               {"extra", extra},
               {"files", Json::array()}};
  if (parent.has_value()) {
    json["parent"] = {{"step", parent->step}, {"checksum", HashText(parent->checksum)}};
  }
  for (const auto& [name, value] : metrics) json["metrics"][name] = NumberJson(value);
  for (const auto& [key, value] : config) json["config"].push_back(Json::array({key, value}));
  for (const auto& [name, values] : statistics) {
    Json& list = json["statistics"][name] = Json::array();
    for (const double value : values) list.push_back(NumberJson(value));
  }
  for (const ModelFile& file : files) {
    json["files"].push_back(
        {{"path", file.path}, {"bytes", file.bytes}, {"hash", HashText(file.hash)}});
  }
  const std::string text = JsonText(json, 1) + "\n";
  const std::string rest = text.substr(text.find('\n') + 1);
  return HeadOf(rest) + rest;
}

bool Manifest::HasChecksum(std::string_view text) { return text.starts_with(kBefore); }

StatusOr<Manifest> Manifest::FromJson(std::string_view text, Checksum checksum) {
  if (text.size() > kMaxBytes) {
    return absl::DataLossError(
        absl::StrCat("the text has ", text.size(), " bytes; at most ", kMaxBytes, " are allowed"));
  }
  SIMURGH_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text));
  Status status;
  ObjectReader keys(json, "", &status);
  const uint64_t version = keys.Unsigned("format_version");
  SIMURGH_RETURN_IF_ERROR(status);
  if (version != kFormatVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("format_version: the checkpoint has version ", version,
                     "; this program reads version ", kFormatVersion, "; use the program of the ",
                     version > kFormatVersion ? "newer" : "older", " version"));
  }
  Manifest manifest;
  manifest.run = keys.Unsigned("run");
  manifest.generation = keys.Unsigned("generation");
  manifest.step = keys.Unsigned("step");
  manifest.samples = keys.Unsigned("samples");
  if (const Json* time = keys.Find(
          "step_time", [](const Json& one) { return one.is_number_integer(); }, "not seconds")) {
    manifest.step_time = time->get<int64_t>();
  }
  const std::string kind = keys.Text("kind");
  if (kind != "full" && kind != "delta") keys.Refuse("kind", "neither full nor delta");
  if (kind == "delta") {
    if (const Json* parent = keys.Object("parent")) {
      ObjectReader of_parent(*parent, "parent.", &status);
      manifest.parent = {of_parent.Unsigned("step"), of_parent.Hash("checksum")};
      of_parent.RefuseOtherKeys();
      if (manifest.parent->step >= manifest.step) keys.Refuse("parent.step", "not before step");
    }
  }
  if (!absl::Base64Unescape(keys.Text("position"), &manifest.position)) {
    keys.Refuse("position", "not a text in base64");
  }
  if (const Json* metrics = keys.Object("metrics")) {
    for (const auto& [name, value] : metrics->items()) {
      manifest.metrics[name] = keys.Number("metrics." + name, value);
    }
  }
  if (const Json* config = keys.Array("config")) {
    for (const Json& entry : *config) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() ||
          !entry[1].is_string()) {
        keys.Refuse("config", "not a list of pairs of texts");
        break;
      }
      manifest.config.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
    }
  }
  if (const Json* statistics = keys.Object("statistics")) {
    for (const auto& [name, values] : statistics->items()) {
      if (!values.is_array()) keys.Refuse("statistics." + name, "not a list");
      std::vector<double>& list = manifest.statistics[name];
      for (const Json& value : values) list.push_back(keys.Number("statistics." + name, value));
    }
  }
  if (const Json* extra = keys.Object("extra")) {
    for (const auto& [name, value] : extra->items()) {
      if (!value.is_string()) {
        keys.Refuse("extra." + name, "not a text");
        break;
      }
      manifest.extra[name] = value.get<std::string>();
    }
  }
  if (const Json* files = keys.Array("files")) {
    for (size_t i = 0; i < files->size(); ++i) {
      manifest.files.push_back(ReadFileEntry((*files)[i], absl::StrCat("files.", i), &status));
    }
  }
  const bool has_checksum = json.contains("checksum");
  if (has_checksum) keys.Find("checksum", [](const Json&) { return true; }, "");
  keys.RefuseOtherKeys();
  SIMURGH_RETURN_IF_ERROR(status);
  if (!has_checksum || checksum == Checksum::kIgnored) return manifest;
  const size_t head_bytes = HeadOf("").size();
  if (text.substr(0, head_bytes) == HeadOf(text.substr(std::min(text.size(), head_bytes)))) {
    return manifest;
  }
  return absl::DataLossError(
      "checksum: it is not that of the text; use another checkpoint, or renew it after an edit "
      "with "
      "`simurgh model seal MODEL`");
}

}  // namespace simurgh
