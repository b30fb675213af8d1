#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/cluster_config.h"
#include "config/diagnostics.h"
#include "config/yaml_node.h"

namespace simurgh {

using Json = nlohmann::ordered_json;

// Returns the JSON Schema of one of these words.
inline Json WordSchema(const std::vector<std::string>& words) { return {{"enum", words}}; }

// Conversion of values from and to text. A value is always the whole text.

enum class NumberFault { kNone, kNotANumber, kOutOfRange };

// Returns whether the text is one digit or more.
bool IsDigits(std::string_view text);

// Parses decimal digits. A negative number is out of range.
NumberFault ParseUnsigned(const std::string& text, uint64_t* value);

// Parses decimal or scientific notation. Numbers that T cannot represent are out of range.
template <std::floating_point T>
NumberFault ParseNumber(const std::string& text, T* value);
// Returns the shortest text that parses to the same value.
template <std::floating_point T>
std::string FormatNumber(T value);

// Parses a whole number and a unit: 50us, 500ms, 10s, 2m.
std::optional<std::chrono::microseconds> ParseDuration(const std::string& text);
std::string FormatDuration(std::chrono::microseconds value);

// Returns whether the text has 1 to 63 letters, digits, '_' or '-'.
bool IsName(const std::string& text);

enum class Need { kOptional, kRequired };

// Allowed numbers of a key; `text` describes them in errors and in the reference.
struct NumberRange {
  double low;
  double high;
  const char* text;
};

// Limits within the normal numbers of a float.
inline constexpr double kMinNumber = 1.2e-38;
inline constexpr double kMaxNumber = 3.4e38;
inline constexpr NumberRange kAnyNumber{-kMaxNumber, kMaxNumber, "number from -3.4e38 to 3.4e38"};
inline constexpr NumberRange kPositive{kMinNumber, kMaxNumber, "number from 1.2e-38 to 3.4e38"};
inline constexpr NumberRange kNonNegative{0.0, kMaxNumber, "number from 0 to 3.4e38"};
inline constexpr NumberRange kShare{0.0F, 1.0F, "number from 0 to 1"};
inline constexpr NumberRange kPositiveShare{kMinNumber, 1.0F, "number from 1.2e-38 to 1"};
// The float before 1 is the largest allowed.
inline constexpr NumberRange kBelowOne{0.0F, 1.0F - std::numeric_limits<float>::epsilon() / 2,
                                       "number from 0 to below 1"};

struct CountRange {
  size_t low;
  size_t high;
};

// Processes that must agree on the value of a key.
enum class Scope : uint8_t {
  kNone = 0,            // Processes may differ.
  kCluster = 1U << 0,   // All daemons.
  kInput = 1U << 1,     // Ranks and loaders, which read the data.
  kTraining = 1U << 2,  // All ranks.
  kModel = 1U << 3,     // A saved model, and trainings that continue it.
};

constexpr Scope operator|(Scope a, Scope b) {
  return static_cast<Scope>(static_cast<uint8_t>(a) | static_cast<uint8_t>(b));
}

constexpr bool Includes(Scope scopes, Scope one) { return (scopes | one) == scopes; }

// A key of the configuration for the reference in config/README.md and the JSON Schema.
struct KnownKey {
  std::string key;       // Dotted; N stands for an index.
  std::string type;      // The type with its range.
  std::string fallback;  // The default, or "required".
  std::string meaning;   // A noun phrase with unit.
  // JSON Schema of the value, with the default. Elements that are mappings have keys of their own.
  Json schema;
  Scope scope;
};

// State of reading one document.
struct ReadContext {
  explicit ReadContext(const YamlNode& root) : diagnostics(root) {}

  Diagnostics diagnostics;
  ConfigSettings settings;
  InputFiles input_files = InputFiles::kCheck;
  Scope scope = Scope::kNone;  // See MapReader::For.
  // Names of tables that give their learning rate or initializer.
  std::set<std::string> tables_with_rate = {};
  std::set<std::string> tables_with_initializer = {};
  // If not null, reading collects all keys instead; lists are treated as if they had one element.
  std::vector<KnownKey>* known_keys = nullptr;
  // Path of a mapping -> keys of which exactly one is required; set with known_keys.
  std::map<std::string, std::vector<std::string>> alternatives = {};
};

// Returns a value for ClusterConfig::settings: escaped; if long, cut and with a hash.
std::string RecordedText(const std::string& value);
std::string HashText(const std::string& bytes);

// Returns the key as the reference lists it: tables.N.dim for tables.0.dim.
std::string WithoutIndexes(std::string_view path);

// Returns `["a", "b"]`.
std::string TextsText(const std::vector<std::string>& texts);

// Reads the keys of one YAML mapping into fields. A field's initial value is the key's default.
// Each getter takes the key, its meaning for the reference, the field and the allowed values.
// Reading continues after errors, which the context's diagnostics collect.
class MapReader {
 public:
  using Body = std::function<void(MapReader&)>;
  // Returns the problem of a text, or an empty string.
  using TextCheck = std::function<std::string(const std::string&)>;

  // Calls `body` with a reader of `node` (null or a null node: an empty mapping), then reports
  // unknown and duplicate keys.
  static void Read(const YamlNode* node, const std::string& path, ReadContext* context,
                   const Body& body);

  MapReader(const MapReader&) = delete;
  MapReader& operator=(const MapReader&) = delete;

  // Lasts until the end of the keys that it is about: a block, or `guard->Bool(...)` for one key.
  class [[nodiscard]] Guard {
   public:
    Guard(MapReader* in, std::function<void()> end) : in_(in), end_(std::move(end)) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { end_(); }

    MapReader* operator->() const { return in_; }

   private:
    MapReader* in_;
    std::function<void()> end_;
  };

  // Sets the scope of keys, also of those in nested mappings. Without a guard, it is kNone.
  Guard For(Scope scope);

  // Unless `holds`, keys have no effect: those that are present are errors, reported at the end of
  // the outermost guard. remedy: what else than removing them helps, as in "set kind: adam". After
  // a bad scalar in this mapping, on which `holds` may depend, nothing is reported.
  Guard When(bool holds, const std::string& remedy);
  // Does the same at once, for keys that precede one on which `holds` depends.
  void OnlyWith(bool holds, const std::string& remedy, const std::vector<std::string>& keys);

  // Reads a text or number that `check` accepts, by default any but an empty text. `type` describes
  // it.
  void Text(const std::string& key, const char* meaning, std::string* out, const std::string& type,
            Need need = Need::kOptional, const TextCheck& check = nullptr);
  // Reads a name, see IsName. `fallback`: the default for the reference; empty: the field's value.
  void Name(const std::string& key, const char* meaning, std::string* out,
            Need need = Need::kOptional, const std::string& fallback = "");
  // `fallback` is as for Name.
  void Bool(const std::string& key, const char* meaning, bool* out,
            const std::string& fallback = "");
  // T: float or double.
  template <std::floating_point T>
  void Number(const std::string& key, const char* meaning, T* out, const NumberRange& range);
  void Character(const std::string& key, const char* meaning, char* out);
  void Texts(const std::string& key, const char* meaning, std::vector<std::string>* out,
             CountRange count, Need need, const std::string& type = "texts",
             const TextCheck& check = nullptr);
  // Receives each node of a list with its path, and a null node if the document is described.
  using Element = std::function<void(const YamlNode* node, const std::string& path)>;
  // Reads a mapping whose keys may have any characters. `element` receives each value that is
  // present with its path. value_schema: JSON Schema of a value.
  void AnyKeys(const std::string& key, const char* meaning, const std::string& type,
               const Json& value_schema, const Element& element);
  // Reads a mapping of names, which may have any characters, to texts.
  void TextMap(const std::string& key, const char* meaning, std::map<std::string, std::string>* out,
               const std::string& type);
  // Reads texts, or a single text for a list of one.
  void TextOrTexts(const std::string& key, const char* meaning, std::vector<std::string>* out,
                   CountRange count, Need need, const std::string& type);

  // `fallback` is as for Name.
  template <std::unsigned_integral T>
  void Integer(const std::string& key, const char* meaning, T* out, std::type_identity_t<T> low,
               std::type_identity_t<T> high, const std::string& fallback = "") {
    uint64_t value = *out;
    WideInteger(key, meaning, &value, low, high, fallback);
    *out = static_cast<T>(value);
  }

  // D: milliseconds or microseconds; a duration that D cannot hold is an error.
  template <class D>
  void Duration(const std::string& key, const char* meaning, D* out, std::type_identity_t<D> low,
                std::type_identity_t<D> high) {
    std::chrono::microseconds value = *out;
    Microseconds(key, meaning, &value, D(1), low, high);
    *out = std::chrono::duration_cast<D>(value);
  }

  // Reads one of a few words.
  template <typename T>
  void Choice(const std::string& key, const char* meaning, T* out,
              const std::vector<std::pair<std::string, T>>& choices) {
    std::vector<std::string> words;
    size_t chosen = 0;
    for (const auto& [word, value] : choices) {
      if (value == *out) chosen = words.size();
      words.push_back(word);
    }
    Word(key, meaning, words, &chosen);
    *out = choices[chosen].second;
  }

  // Reads the name of a value of an enumeration. names: those of all values, in order.
  template <typename T, size_t kCount>
  void Choice(const std::string& key, const char* meaning, T* out,
              const std::array<const char*, kCount>& names) {
    auto chosen = static_cast<size_t>(*out);
    Word(key, meaning, {names.begin(), names.end()}, &chosen);
    *out = static_cast<T>(chosen);
  }

  void Map(const std::string& key, const Body& body);
  // Reads a list of mappings, required if it may not be empty and has no fallback. fallback:
  // describes the list that an absent key stands for.
  void Maps(const std::string& key, const char* meaning, CountRange count, const Body& body,
            const std::string& fallback = "");
  // element_schema: JSON Schema of an element that is not a mapping; else null.
  void List(const std::string& key, const char* meaning, CountRange count, Need need,
            const std::string& type, const std::string& fallback, const Json& element_schema,
            const Element& element);

  // Describes that exactly one of the keys is required. The caller checks it.
  void OneOf(const std::vector<std::string>& keys);

  // Overrides the recorded setting of a key that is present.
  void Record(const std::string& key, const std::string& value);
  bool Has(const std::string& key) const;
  std::string PathOf(const std::string& key) const;
  void Error(const std::string& key, const std::string& what, const std::string& remedy);
  // Returns "file:line: dotted key", for errors found after reading.
  std::string Where(const std::string& key) const;
  ReadContext* context() { return context_; }
  bool describing() const { return context_->known_keys != nullptr; }

 private:
  // Sets the field from a scalar; returns the problem, or an empty string.
  using Setter = std::function<std::string(const YamlNode&)>;
  // Returns the JSON Schema of the value; called to describe the keys.
  using Schema = std::function<Json()>;
  // Returns the field's value as text.
  using Show = std::function<std::string()>;

  // The arguments of When() and its keys: [first, last) of known_.
  struct Condition {
    bool holds;
    std::string remedy;
    std::ptrdiff_t first;
    std::ptrdiff_t last;
  };

  MapReader(const YamlNode* node, std::string path, ReadContext* context)
      : node_(node), path_(std::move(path)), context_(context) {}

  void WideInteger(const std::string& key, const char* meaning, uint64_t* out, uint64_t low,
                   uint64_t high, const std::string& fallback);
  void Microseconds(const std::string& key, const char* meaning, std::chrono::microseconds* out,
                    std::chrono::microseconds unit, std::chrono::microseconds low,
                    std::chrono::microseconds high);
  void Word(const std::string& key, const char* meaning, const std::vector<std::string>& words,
            size_t* chosen);
  // Notes the key and returns its value; null if it is absent, which is an error if it is required.
  const YamlNode* Declare(const std::string& key, const char* meaning, const std::string& type,
                          const std::string& fallback, Need need, const Schema& schema);
  // Reads a scalar with `setter`. An empty fallback stands for the field's value.
  void Scalar(const std::string& key, const char* meaning, const std::string& type,
              const std::string& fallback, Need need, const Schema& schema, const Show& show,
              const Setter& setter);
  void ReportStrayKeys();
  const YamlNode* Find(std::string_view key) const {
    return node_ == nullptr ? nullptr : FindKey(*node_, key);
  }

  const YamlNode* node_;
  std::string path_;
  ReadContext* context_;
  std::vector<std::string> known_;
  std::vector<std::string> nested_;           // Keys in mappings of this one, as "csv.header".
  std::map<std::string, std::string> words_;  // Key -> its choice.
  bool has_bad_scalar_ = false;
  std::vector<Condition> conditions_;  // In the order of their guards, until the outermost ends.
  size_t open_conditions_ = 0;
};

}  // namespace simurgh
