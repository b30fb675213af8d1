#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include <nlohmann/json.hpp>

#include "config/cluster_config.h"
#include "config/map_reader.h"
#include "config/sections.h"

namespace simurgh {
namespace {

using Path = std::vector<std::string>;

constexpr char kElement[] = "N";
constexpr char kLayer[] = "layer";

// Builds one schema of the document from those of its keys.
class SchemaBuilder {
 public:
  explicit SchemaBuilder(const std::map<std::string, std::vector<std::string>>& alternatives)
      : alternatives_(alternatives) {
    root_["$schema"] = "https://json-schema.org/draft/2020-12/schema";
    root_["title"] = "Cluster file of Simurgh";
  }

  void Add(const KnownKey& key) {
    const Path path = absl::StrSplit(key.key, '.');
    Json schema = key.schema;
    schema["description"] = absl::StrCat(key.meaning, " (", key.type, ")");
    NodeAt(path) = std::move(schema);
    if (key.fallback == "required") Require(path);
  }

  Json Take() {
    for (const auto& [name, keys] : alternatives_) {
      const Path path = absl::StrSplit(name, '.');
      Json& node = NodeAt(path);
      Json each = Json::array();
      for (const std::string& key : keys) each.push_back({{"required", Json::array({key})}});
      node["oneOf"] = each;
      if (name == "model") {  // A program may have the network.
        node["oneOf"].push_back({{"not", {{"anyOf", std::move(each)}}}});
      } else {
        Require(path);
      }
    }
    // `model` is also the name of one that has defaults.
    Json& model = root_["properties"]["model"];
    std::vector<std::string> names = alternatives_.at("model");
    std::erase(names, "towers");
    model = {{"if", {{"type", "string"}}}, {"then", {{"enum", names}}}, {"else", std::move(model)}};
    // `items` is also a file, or a list of them.
    Json& items = root_["properties"]["data"]["properties"]["items"];
    items["required"] = Json::array({"files"});
    const Json files = items["properties"]["files"];
    items = {{"if", {{"type", "object"}}},
             {"then", std::move(items)},
             {"else", {{"anyOf", Json::array({{{"type", "string"}}, files})}}}};
    root_["$defs"][kLayer]["minProperties"] = 1;
    root_["$defs"][kLayer]["maxProperties"] = 1;
    // The columns of one format are fixed, and must not be given.
    Json& data = root_["properties"]["data"];
    data["if"] = {{"properties", {{"format", {{"const", "criteo"}}}}},
                  {"required", Json::array({"format"})}};
    data["then"] = {{"properties", {{"csv", false}, {"columns", false}}}};
    data["else"] = {{"properties", {{"criteo", false}}}, {"required", Json::array({"columns"})}};
    AllowEmpty(root_);
    return std::move(root_);
  }

 private:
  // Creates the mappings on the way.
  Json& NodeAt(const Path& path) {
    Json* node = &root_;
    for (const std::string& component : path) {
      if (component == kElement) {
        Json& elements = (*node)["items"];
        node = elements.contains("anyOf") ? &root_["$defs"][kLayer] : &elements;
        continue;
      }
      (*node)["type"] = "object";
      (*node)["additionalProperties"] = false;
      node = &(*node)["properties"][component];
    }
    return *node;
  }

  // A mapping with a required key is required, too, unless it is an alternative.
  void Require(Path path) {
    while (!path.empty() && path.back() != kElement) {
      const std::string key = path.back();
      path.pop_back();
      const auto found = alternatives_.find(absl::StrJoin(path, "."));
      if (found != alternatives_.end() && std::ranges::count(found->second, key) > 0) return;
      Json& required = NodeAt(path)["required"];
      if (std::ranges::find(required, Json(key)) != required.end()) return;
      required.push_back(key);
    }
  }

  // A section without required keys may have no value.
  static void AllowEmpty(Json& node) {
    if (!node.is_structured()) return;
    for (Json& child : node) AllowEmpty(child);
    const bool is_mapping = node.is_object() && node.contains("additionalProperties");
    if (is_mapping && !node.contains("required") && !node.contains("oneOf") &&
        !node.contains("minProperties")) {
      node["type"] = {"object", "null"};
    }
  }

  const std::map<std::string, std::vector<std::string>>& alternatives_;
  Json root_;
};

}  // namespace

std::string ConfigSchema() {
  std::map<std::string, std::vector<std::string>> alternatives;
  const std::vector<KnownKey> keys = KnownKeys(&alternatives);
  SchemaBuilder builder(alternatives);
  for (const KnownKey& key : keys) builder.Add(key);
  return builder.Take().dump(2) + "\n";
}

}  // namespace simurgh
