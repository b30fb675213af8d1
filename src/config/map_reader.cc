#include "config/map_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/hash.h"
#include "base/text.h"
#include "config/diagnostics.h"

namespace simurgh {

bool IsDigits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

NumberFault ParseUnsigned(const std::string& text, uint64_t* value) {
  const bool negative = text.starts_with('-');
  const std::string_view digits = std::string_view(text).substr(negative ? 1 : 0);
  if (!IsDigits(digits)) return NumberFault::kNotANumber;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *value);
  return negative || error != std::errc() ? NumberFault::kOutOfRange : NumberFault::kNone;
}

template <std::floating_point T>
NumberFault ParseNumber(const std::string& text, T* value) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value);
  if (error == std::errc::invalid_argument || rest != end) return NumberFault::kNotANumber;
  if (error != std::errc()) return NumberFault::kOutOfRange;
  return std::isfinite(*value) ? NumberFault::kNone : NumberFault::kNotANumber;
}

template NumberFault ParseNumber(const std::string& text, float* value);
template NumberFault ParseNumber(const std::string& text, double* value);

template <std::floating_point T>
std::string FormatNumber(T value) {
  std::array<char, 32> text{};
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end};
}

template std::string FormatNumber(float value);
template std::string FormatNumber(double value);

std::optional<std::chrono::microseconds> ParseDuration(const std::string& text) {
  constexpr uint64_t kMaxCount = 10'000'000'000;  // A limit above all ranges that cannot overflow.
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  uint64_t count = 0;
  if (ParseUnsigned(text.substr(0, digits), &count) != NumberFault::kNone || count > kMaxCount) {
    return std::nullopt;
  }
  const std::string unit = text.substr(digits);
  if (unit == "us") return std::chrono::microseconds(count);
  if (unit == "ms") return std::chrono::milliseconds(count);
  if (unit == "s") return std::chrono::seconds(count);
  if (unit == "m") return std::chrono::minutes(count);
  return std::nullopt;
}

std::string FormatDuration(std::chrono::microseconds value) {
  const int64_t us = value.count();
  if (us == 0) return "0s";
  if (us % 60'000'000 == 0) return absl::StrCat(us / 60'000'000, "m");
  if (us % 1'000'000 == 0) return absl::StrCat(us / 1'000'000, "s");
  if (us % 1'000 == 0) return absl::StrCat(us / 1'000, "ms");
  return absl::StrCat(us, "us");
}

bool IsName(const std::string& text) {
  constexpr size_t kMaxLength = 63;
  return !text.empty() && text.size() <= kMaxLength &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '_' || c == '-';
         });
}

namespace {

constexpr char kRequired[] = "required";
constexpr char kNameType[] = "name of 1 to 63 letters, digits, '_' or '-'";

std::string Quoted(const YamlNode& scalar) {
  return absl::StrCat("'", scalar.text, "'", scalar.quoted ? " in quotes" : "");
}

std::string NumberProblem(NumberFault fault, const YamlNode& scalar, const char* noun) {
  if (fault == NumberFault::kNotANumber || scalar.quoted) {
    return absl::StrCat(Quoted(scalar), " is not ", noun);
  }
  if (fault == NumberFault::kOutOfRange) return absl::StrCat(scalar.text, " is out of range");
  return "";
}

std::string Expected(const std::string& type) { return absl::StrCat("expected: ", type); }

// Returns the remedy of a problem: "use 1 to 65535" for a number out of range.
std::string Remedy(const std::string& problem, const std::string& type) {
  if (!problem.ends_with(" is out of range")) return Expected(type);
  const size_t range = type.find(" from ");
  return range == type.npos ? absl::StrCat("use a ", type)
                            : absl::StrCat("use ", type.substr(range + std::strlen(" from ")));
}

// Returns a large power of 2 as "2^40", which is easier to read than 1099511627776.
std::string CountText(uint64_t count) {
  constexpr uint64_t kShort = uint64_t{1} << 20;
  if (count == UINT64_MAX) return "2^64 - 1";
  if (count < kShort || !std::has_single_bit(count)) return absl::StrCat(count);
  return absl::StrCat("2^", std::countr_zero(count));
}

std::string TextOrNone(const std::string& text) { return text.empty() ? "none" : text; }

// Returns the JSON Schema of a text. YAML numbers and booleans are texts, too.
Json AnyText() { return {{"type", {"string", "number", "boolean"}}}; }

// Adds the default to a schema. fallback: null for none.
Json WithDefault(Json schema, const Json& fallback) {
  if (!fallback.is_null()) schema["default"] = fallback;
  return schema;
}

std::string ListType(CountRange count, const std::string& type) {
  const std::string range = count.low == count.high ? "" : absl::StrCat(" to ", count.high);
  return absl::StrCat("list of ", count.low, range, " ", type);
}

std::string ElementCount(size_t count) {
  return absl::StrCat(count, count == 1 ? " element" : " elements");
}

}  // namespace

std::string HashText(const std::string& bytes) {
  return absl::StrCat("XXH3 ", absl::Hex(HashBytes(bytes), absl::kZeroPad16));
}

std::string RecordedText(const std::string& value) {
  // Older models have these texts, too: ASCII, \xNN in place of other bytes.
  constexpr size_t kMaxBytes = 96;
  constexpr size_t kShownBytes = 32;
  std::string line;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isprint(byte)) {
      line += c;
    } else {
      absl::StrAppend(&line, "\\x", absl::Hex(byte, absl::kZeroPad2));
    }
  }
  if (line.size() <= kMaxBytes) return line;
  return absl::StrCat(line.substr(0, kShownBytes), "... (", value.size(), " bytes, ",
                      HashText(value), ")");
}

std::string TextsText(const std::vector<std::string>& texts) {
  const auto quote = [](std::string* text, const std::string& value) {
    absl::StrAppend(text, "\"", value, "\"");
  };
  return absl::StrCat("[", absl::StrJoin(texts, ", ", quote), "]");
}

std::string WithoutIndexes(std::string_view path) {
  std::vector<std::string> components =
      absl::StrSplit(absl::string_view(path.data(), path.size()), '.');
  for (std::string& component : components) {
    if (IsDigits(component)) component = "N";
  }
  return absl::StrJoin(components, ".");
}

void MapReader::Read(const YamlNode* node, const std::string& path, ReadContext* context,
                     const Body& body) {
  if (node != nullptr && node->kind != YamlNode::Kind::kMap &&
      node->kind != YamlNode::Kind::kNull) {
    const std::string what = node->kind == YamlNode::Kind::kList
                                 ? "is a list"
                                 : absl::StrCat(Quoted(*node), " is a value");
    context->diagnostics.ReportAt(node->place, path.empty() ? "the document" : path, what,
                                  "give keys with values");
    return;
  }
  MapReader reader(node, path, context);
  body(reader);
  reader.ReportStrayKeys();
}

std::string MapReader::PathOf(const std::string& key) const {
  return path_.empty() ? key : absl::StrCat(path_, ".", key);
}

std::string MapReader::Where(const std::string& key) const {
  return context_->diagnostics.Where(PathOf(key));
}

void MapReader::Error(const std::string& key, const std::string& what, const std::string& remedy) {
  context_->diagnostics.Report(PathOf(key), what, remedy);
}

MapReader::Guard MapReader::For(Scope scope) {
  const Scope outer = std::exchange(context_->scope, scope);
  return Guard(this, [this, outer] { context_->scope = outer; });
}

MapReader::Guard MapReader::When(bool holds, const std::string& remedy) {
  const size_t index = conditions_.size();
  conditions_.push_back({holds, remedy, std::ssize(known_), 0});
  ++open_conditions_;
  return Guard(this, [this, index] {
    conditions_[index].last = std::ssize(known_);
    if (--open_conditions_ > 0) return;
    for (const Condition& one : std::exchange(conditions_, {})) {
      const auto keys = known_.begin();
      OnlyWith(one.holds, one.remedy, {keys + one.first, keys + one.last});
    }
  });
}

bool MapReader::Has(const std::string& key) const { return Find(key) != nullptr; }

void MapReader::ReportStrayKeys() {
  if (node_ == nullptr) return;
  for (const YamlNode& item : node_->items) {
    const YamlNode* const first = Find(item.key);
    if (first != &item) {
      context_->diagnostics.ReportAt(item.key_place, PathOf(item.key), "given twice",
                                     absl::StrCat("keep one; the other is at ", first->key_place));
    } else if (std::ranges::find(known_, item.key) == known_.end()) {
      const auto is_same = [&](const auto& other) { return other.ends_with("." + item.key); };
      const auto nested = std::ranges::find_if(nested_, is_same);
      const bool is_unique = std::ranges::count_if(nested_, is_same) == 1;
      context_->diagnostics.ReportAt(item.key_place, PathOf(item.key), "unknown key",
                                     is_unique ? absl::StrCat("use ", PathOf(*nested))
                                               : NearestRemedy("known key", item.key, known_));
    }
  }
}

void MapReader::Record(const std::string& key, const std::string& value) {
  context_->settings[PathOf(key)] = RecordedText(value);
}

const YamlNode* MapReader::Declare(const std::string& key, const char* meaning,
                                   const std::string& type, const std::string& fallback, Need need,
                                   const Schema& schema) {
  known_.push_back(key);
  if (describing()) {
    context_->known_keys->push_back({WithoutIndexes(PathOf(key)), type,
                                     need == Need::kRequired ? kRequired : fallback, meaning,
                                     schema(), context_->scope});
  }
  const YamlNode* const found = Find(key);
  if (found == nullptr && need == Need::kRequired) Error(key, "missing", Expected(type));
  return found;
}

void MapReader::Scalar(const std::string& key, const char* meaning, const std::string& type,
                       const std::string& fallback, Need need, const Schema& schema,
                       const Show& show, const Setter& setter) {
  const std::string initial = show();
  const YamlNode* value =
      Declare(key, meaning, type, fallback.empty() ? initial : fallback, need, schema);
  if (value == nullptr) return;
  std::string problem;
  if (value->kind == YamlNode::Kind::kNull) {
    problem = "has no value";
  } else if (value->kind != YamlNode::Kind::kScalar) {
    problem = value->kind == YamlNode::Kind::kList ? "is a list" : "is a mapping";
  } else {
    problem = setter(*value);
  }
  if (!problem.empty()) {
    has_bad_scalar_ = true;
    return Error(key, problem, Remedy(problem, type));
  }
  if (show() != initial) Record(key, show());
}

void MapReader::Text(const std::string& key, const char* meaning, std::string* out,
                     const std::string& type, Need need, const TextCheck& check) {
  Scalar(
      key, meaning, type, "", need,
      [&] {
        Json schema = AnyText();
        schema["minLength"] = 1;
        return WithDefault(schema, out->empty() ? Json() : Json(*out));
      },
      [&] { return TextOrNone(*out); },
      [&](const YamlNode& value) {
        std::string problem = value.text.empty() ? "an empty text" : "";
        if (check) problem = check(value.text);
        if (problem.empty()) *out = value.text;
        return problem;
      });
}

void MapReader::Name(const std::string& key, const char* meaning, std::string* out, Need need,
                     const std::string& fallback) {
  Scalar(
      key, meaning, kNameType, fallback, need,
      [&] {
        Json schema = AnyText();
        schema["pattern"] = "^[A-Za-z0-9_-]{1,63}$";
        return schema;
      },
      [&] { return TextOrNone(*out); },
      [&](const YamlNode& value) -> std::string {
        if (!IsName(value.text)) return absl::StrCat("'", value.text, "' is not a name");
        *out = value.text;
        return "";
      });
}

void MapReader::Bool(const std::string& key, const char* meaning, bool* out,
                     const std::string& fallback) {
  Scalar(
      key, meaning, "true or false", fallback, Need::kOptional,
      [&] { return WithDefault({{"type", "boolean"}}, fallback.empty() ? Json(*out) : Json()); },
      [&] { return *out ? "true" : "false"; },
      [&](const YamlNode& value) -> std::string {
        const bool is_true = value.text == "true";
        if (value.quoted || (!is_true && value.text != "false")) {
          return absl::StrCat(Quoted(value), " is not a boolean");
        }
        *out = is_true;
        return "";
      });
}

void MapReader::WideInteger(const std::string& key, const char* meaning, uint64_t* out,
                            uint64_t low, uint64_t high, const std::string& fallback) {
  // Errors and settings have numbers that the parser reads.
  const auto text = [&](uint64_t number) {
    return describing() ? CountText(number) : absl::StrCat(number);
  };
  Scalar(
      key, meaning, absl::StrCat("integer from ", text(low), " to ", text(high)), fallback,
      Need::kOptional,
      [&] {
        return WithDefault({{"type", "integer"}, {"minimum", low}, {"maximum", high}},
                           fallback.empty() ? Json(*out) : Json());
      },
      [&] { return text(*out); },
      [&](const YamlNode& value) {
        uint64_t number = 0;
        NumberFault fault = ParseUnsigned(value.text, &number);
        if (fault == NumberFault::kNone && (number < low || number > high)) {
          fault = NumberFault::kOutOfRange;
        }
        std::string problem = NumberProblem(fault, value, "an integer");
        if (problem.empty()) *out = number;
        return problem;
      });
}

template <std::floating_point T>
void MapReader::Number(const std::string& key, const char* meaning, T* out,
                       const NumberRange& range) {
  Scalar(
      key, meaning, range.text, "", Need::kOptional,
      [&] {
        // FormatNumber() gives the shortest number that is equal as a T.
        return WithDefault({{"type", "number"}, {"minimum", range.low}, {"maximum", range.high}},
                           Json::parse(FormatNumber(*out)));
      },
      [&] { return FormatNumber(*out); },
      [&](const YamlNode& value) {
        T number = 0;
        NumberFault fault = ParseNumber(value.text, &number);
        if (fault == NumberFault::kNone &&
            (number < static_cast<T>(range.low) || number > static_cast<T>(range.high))) {
          fault = NumberFault::kOutOfRange;
        }
        std::string problem = NumberProblem(fault, value, "a finite number");
        if (problem.empty()) *out = number;
        return problem;
      });
}

template void MapReader::Number(const std::string&, const char*, float*, const NumberRange&);
template void MapReader::Number(const std::string&, const char*, double*, const NumberRange&);

void MapReader::Microseconds(const std::string& key, const char* meaning,
                             std::chrono::microseconds* out, std::chrono::microseconds unit,
                             std::chrono::microseconds low, std::chrono::microseconds high) {
  const std::string type =
      absl::StrCat("duration from ", FormatDuration(low), " to ", FormatDuration(high));
  Scalar(
      key, meaning, type, "", Need::kOptional,
      [&] {
        return WithDefault({{"type", "string"}, {"pattern", "^[0-9]+(us|ms|s|m)$"}},
                           FormatDuration(*out));
      },
      [&] { return FormatDuration(*out); },
      [&](const YamlNode& value) -> std::string {
        const auto duration = ParseDuration(value.text);
        if (!duration) {
          return absl::StrCat(Quoted(value), " is not a duration such as 50us, 500ms, 10s or 2m");
        }
        if (*duration < low || *duration > high || *duration % unit != unit.zero()) {
          return absl::StrCat(value.text, " is out of range");
        }
        *out = *duration;
        return "";
      });
}

void MapReader::Character(const std::string& key, const char* meaning, char* out) {
  Scalar(
      key, meaning,
      "one ASCII character in double quotes, such as \"\\t\"; no quote, letter, digit or line end",
      "", Need::kOptional,
      [&] {
        return WithDefault({{"type", "string"}, {"pattern", "^[^A-Za-z0-9\"\\r\\n]$"}},
                           *out == '\0' ? Json() : Json(std::string(1, *out)));
      },
      [&] { return *out == '\0' ? "none" : absl::StrCat("\"", std::string(1, *out), "\""); },
      [&](const YamlNode& value) -> std::string {
        const unsigned char c = value.text.empty() ? '\0' : value.text[0];
        const bool is_line_end = c == '\0' || c == '\r' || c == '\n';
        if (value.text.size() != 1 || !absl::ascii_isascii(c) || is_line_end ||
            absl::ascii_isalnum(c) || c == '"') {
          return absl::StrCat("'", value.text, "' is not a separator");
        }
        *out = value.text[0];
        return "";
      });
}

void MapReader::Texts(const std::string& key, const char* meaning, std::vector<std::string>* out,
                      CountRange count, Need need, const std::string& type,
                      const TextCheck& check) {
  std::vector<std::string> texts;
  const auto read = [&](const YamlNode* node, const std::string& path) {
    if (node == nullptr) return;
    std::string problem = "is not a text";
    if (node->kind == YamlNode::Kind::kScalar) problem = check ? check(node->text) : "";
    if (!problem.empty()) return context_->diagnostics.Report(path, problem, Expected(type));
    texts.push_back(node->text);
  };
  List(key, meaning, count, need, type, TextsText(*out), AnyText(), read);
  if (!Has(key)) return;
  *out = std::move(texts);
  Record(key, TextsText(*out));
}

void MapReader::AnyKeys(const std::string& key, const char* meaning, const std::string& type,
                        const Json& value_schema, const Element& element) {
  const YamlNode* map = Declare(key, meaning, type, "{}", Need::kOptional, [&] {
    return Json{{"type", "object"}, {"additionalProperties", value_schema}};
  });
  if (map == nullptr) return;
  if (map->kind != YamlNode::Kind::kMap) return Error(key, "is not a mapping", Expected(type));
  std::set<std::string> names;
  for (const YamlNode& value : map->items) {
    const std::string path = PathOf(absl::StrCat(key, ".", value.key));
    if (!names.insert(value.key).second) {
      context_->diagnostics.ReportAt(value.key_place, path, "given twice", "keep one");
      continue;
    }
    element(&value, path);
  }
}

void MapReader::TextMap(const std::string& key, const char* meaning,
                        std::map<std::string, std::string>* out, const std::string& type) {
  std::vector<std::string> texts;
  AnyKeys(key, meaning, type, AnyText(), [&](const YamlNode* value, const std::string& path) {
    if (value->kind != YamlNode::Kind::kScalar) {
      return context_->diagnostics.ReportAt(value->place, path, "is not a text", Expected("text"));
    }
    out->emplace(value->key, value->text);
    texts.push_back(absl::StrCat(value->key, "=", value->text));
  });
  if (Has(key)) Record(key, TextsText(texts));
}

void MapReader::TextOrTexts(const std::string& key, const char* meaning,
                            std::vector<std::string>* out, CountRange count, Need need,
                            const std::string& type) {
  const YamlNode* const found = Find(key);
  if (found == nullptr || found->kind != YamlNode::Kind::kScalar) {
    Texts(key, meaning, out, count, need, absl::StrCat(type, "; or one of them"));
    if (describing()) {
      Json& schema = context_->known_keys->back().schema;
      schema = {{"anyOf", Json::array({AnyText(), schema})}};
    }
    return;
  }
  known_.push_back(key);
  *out = {found->text};
  Record(key, TextsText(*out));
}

void MapReader::Word(const std::string& key, const char* meaning,
                     const std::vector<std::string>& words, size_t* chosen) {
  Scalar(
      key, meaning, absl::StrCat("one of ", absl::StrJoin(words, ", ")), "", Need::kOptional,
      [&] { return WithDefault(WordSchema(words), words[*chosen]); },
      [&] { return words[*chosen]; },
      [&](const YamlNode& value) -> std::string {
        const auto found = std::find(words.begin(), words.end(), value.text);
        if (found == words.end()) return absl::StrCat(Quoted(value), " is unknown");
        *chosen = static_cast<size_t>(found - words.begin());
        return "";
      });
  words_[key] = words[*chosen];
}

void MapReader::Map(const std::string& key, const Body& body) {
  known_.push_back(key);
  Read(Find(key), PathOf(key), context_, [&](MapReader& in) {
    body(in);
    for (const std::string& name : in.known_) nested_.push_back(absl::StrCat(key, ".", name));
  });
}

void MapReader::Maps(const std::string& key, const char* meaning, CountRange count,
                     const Body& body, const std::string& fallback) {
  const bool is_required = count.low > 0 && fallback.empty();
  List(key, meaning, count, is_required ? Need::kRequired : Need::kOptional, "mappings",
       fallback.empty() ? "[]" : fallback, /*element_schema=*/Json(),
       [&](const YamlNode* node, const std::string& path) { Read(node, path, context_, body); });
}

void MapReader::List(const std::string& key, const char* meaning, CountRange count, Need need,
                     const std::string& type, const std::string& fallback,
                     const Json& element_schema, const Element& element) {
  const std::string list_type = ListType(count, type);
  const YamlNode* list = Declare(key, meaning, list_type, fallback, need, [&] {
    Json schema = {{"type", "array"}, {"minItems", count.low}, {"maxItems", count.high}};
    if (!element_schema.is_null()) schema["items"] = element_schema;
    return schema;
  });
  if (describing()) element(nullptr, PathOf(absl::StrCat(key, ".0")));
  if (list == nullptr) return;
  if (list->kind != YamlNode::Kind::kList) {
    Error(key, list->kind == YamlNode::Kind::kNull ? "has no value" : "is not a list",
          Expected(list_type));
    return;
  }
  const size_t size = list->items.size();
  if (size < count.low || size > count.high) {
    return Error(key, absl::StrCat("has ", ElementCount(size)), Expected(list_type));
  }
  if (size > 0) Record(key, ElementCount(size));
  for (size_t i = 0; i < size; ++i) element(&list->items[i], PathOf(absl::StrCat(key, ".", i)));
}

void MapReader::OneOf(const std::vector<std::string>& keys) {
  if (describing()) context_->alternatives[WithoutIndexes(path_)] = keys;
}

void MapReader::OnlyWith(bool holds, const std::string& remedy,
                         const std::vector<std::string>& keys) {
  if (holds || has_bad_scalar_) return;
  std::string what = "has no effect";
  for (const auto& [key, word] : words_) {
    if (remedy.starts_with(absl::StrCat("set ", key, ":"))) {
      absl::StrAppend(&what, " with ", key, ": ", word);
    }
  }
  for (const std::string& key : keys) {
    const YamlNode* const found = Find(key);
    // An empty section has no effect, and overrides use it to remove one.
    if (found != nullptr && found->kind == YamlNode::Kind::kMap && found->items.empty()) continue;
    if (found != nullptr) Error(key, what, absl::StrCat("remove it, or ", remedy));
  }
}

}  // namespace simurgh
