#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"

#include "config/map_reader.h"
#include "config/nearest.h"
#include "config/sections.h"
#include "config/yaml_node.h"

namespace simurgh {
namespace {

constexpr char kType[] = "keys with choices or ranges, see Search for settings";

// Trials are compared by these rows and this metric, and each has a folder of its own.
constexpr const char* kFixed[] = {"data.validation", "training.early_stopping.metric",
                                  "checkpoint.directory", "checkpoint.best_by", "tune"};

bool IsKeyIn(std::string_view key, std::string_view section) {
  return key == section || (key.starts_with(section) && key[section.size()] == '.');
}

// Returns whether --set takes the key: a key, a section, or an element of a list.
bool IsKnown(const std::string& key, const std::vector<KnownKey>& known) {
  return std::ranges::any_of(known, [&](const KnownKey& one) {
    return IsKeyIn(one.key, key) ||
           (one.type.starts_with("list of ") && key.starts_with(one.key + ".N"));
  });
}

// A problem of a choice or range, and its remedy; both empty if there is none.
struct Problem {
  std::string what;
  std::string remedy;
};

Problem ProblemOfRange(const YamlNode& range) {
  constexpr char kKeys[] = "use {low, high}, with log: true or step, or {factor}";
  std::map<std::string, double> numbers;
  bool is_log = false;
  for (const YamlNode& value : range.items) {
    const std::string shown = absl::StrCat(value.key, ": '", value.text, "'");
    if (value.key == "log") {
      if (value.text != "true" && value.text != "false") {
        return {absl::StrCat(shown, " is not true or false"), kKeys};
      }
      is_log = value.text == "true";
    } else if (value.key == "low" || value.key == "high" || value.key == "step" ||
               value.key == "factor") {
      const bool is_scalar = value.kind == YamlNode::Kind::kScalar && !value.quoted;
      if (!is_scalar || ParseNumber(value.text, &numbers[value.key]) != NumberFault::kNone) {
        return {absl::StrCat(shown, " is not a number"), kKeys};
      }
    } else {
      return {absl::StrCat("'", value.key, "' is no part of a range"), kKeys};
    }
  }
  if (numbers.contains("factor")) {
    if (range.items.size() > 1) return {"factor has other keys next to it", "give factor alone"};
    if (numbers["factor"] > 1) return {};
    return {"factor is not above 1", "use 4 for a quarter to four times the written value"};
  }
  if (!numbers.contains("low") || !numbers.contains("high")) {
    return {"the range has not both low and high", kKeys};
  }
  if (numbers["low"] >= numbers["high"])
    return {"low is not below high", "exchange or change them"};
  if (is_log && numbers["low"] <= 0) return {"log: true with a low of 0 or less", "raise low"};
  if (!numbers.contains("step")) return {};
  if (is_log) return {"log: true with a step", "leave out one of them"};
  return numbers["step"] > 0 ? Problem() : Problem{"step is not above 0", "raise it"};
}

Problem ProblemOfValue(const YamlNode& value) {
  if (value.kind == YamlNode::Kind::kMap) return ProblemOfRange(value);
  if (value.kind != YamlNode::Kind::kList) {
    return {"is neither a list of choices nor a range", "use [A, B] or {low: A, high: B}"};
  }
  return value.items.empty() ? Problem{"has no choice", "give at least one"} : Problem();
}

Json ValueSchema() {
  const Json number = {{"type", "number"}};
  return {{"anyOf", Json::array({{{"type", "array"}, {"minItems", 1}},
                                 {{"type", "object"},
                                  {"additionalProperties", false},
                                  {"properties",
                                   {{"low", number},
                                    {"high", number},
                                    {"step", number},
                                    {"factor", {{"type", "number"}, {"exclusiveMinimum", 1}}},
                                    {"log", {{"type", "boolean"}}}}}}})}};
}

}  // namespace

void CheckTune(MapReader& root) {
  std::vector<KnownKey> known;
  const auto check = [&](const YamlNode* value, const std::string& path) {
    const auto report = [&](const std::string& what, const std::string& remedy) {
      root.context()->diagnostics.ReportAt(value->key_place, path, what, remedy);
    };
    if (known.empty()) known = KnownKeys();
    const std::string key = WithoutIndexes(value->key);
    if (!IsKnown(key, known)) {
      std::vector<std::string> names;
      for (const KnownKey& one : known) names.push_back(one.key);
      return report("unknown key", NearestRemedy("known key", key, names));
    }
    const bool is_fixed = std::ranges::any_of(
        kFixed, [&](const char* one) { return IsKeyIn(key, one) || IsKeyIn(one, key); });
    if (is_fixed) return report("the same in all trials, which it compares", "remove it");
    const Problem problem = ProblemOfValue(*value);
    if (!problem.what.empty()) report(problem.what, problem.remedy);
  };
  root.AnyKeys("tune", "settings that `simurgh tune` searches: keys, each with choices or a range",
               kType, ValueSchema(), check);
}

}  // namespace simurgh
