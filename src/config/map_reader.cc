#include "config/map_reader.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "config/nearest.h"
#include "config/scalar.h"

namespace simurgh {
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

// tables.0.dim -> tables.N.dim: the key as the reference lists it.
std::string WithoutIndexes(const std::string& path) {
  std::vector<std::string> components = absl::StrSplit(path, '.');
  for (std::string& component : components) {
    if (std::all_of(component.begin(), component.end(), absl::ascii_isdigit)) component = "N";
  }
  return absl::StrJoin(components, ".");
}

std::string ListType(CountRange count, const std::string& type) {
  const std::string range = count.low == count.high ? "" : absl::StrCat(" to ", count.high);
  return absl::StrCat("list of ", count.low, range, ": ", type);
}

}  // namespace

void MapReader::Read(const YamlNode* node, const std::string& path, ReadContext* context,
                     const Body& body) {
  if (node != nullptr && node->kind != YamlNode::Kind::kMap &&
      node->kind != YamlNode::Kind::kNull) {
    const std::string what =
        node->kind == YamlNode::Kind::kList ? "a list" : absl::StrCat("the value ", Quoted(*node));
    context->diagnostics.ReportAt(node->place, path.empty() ? "the document" : path, what,
                                  "expected: keys with values");
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

bool MapReader::Has(const std::string& key) const {
  return node_ != nullptr && FindKey(*node_, key) >= 0;
}

void MapReader::ReportStrayKeys() {
  if (node_ == nullptr) return;
  for (size_t i = 0; i < node_->keys.size(); ++i) {
    const YamlNode& key = node_->keys[i];
    const int first = FindKey(*node_, key.text);
    if (first != static_cast<int>(i)) {
      context_->diagnostics.ReportAt(
          key.place, PathOf(key.text), "given twice",
          absl::StrCat("keep one; the other is at ", node_->keys[first].place));
    } else if (std::find(known_.begin(), known_.end(), key.text) == known_.end()) {
      context_->diagnostics.ReportAt(
          key.place, PathOf(key.text), "unknown key",
          absl::StrCat("the nearest known key is '", Nearest(key.text, known_), "'"));
    }
  }
}

const YamlNode* MapReader::Declare(const std::string& key, const std::string& type,
                                   const std::string& fallback, Need need) {
  known_.push_back(key);
  if (describing()) {
    context_->known_keys->push_back(
        {WithoutIndexes(PathOf(key)), type, need == Need::kRequired ? kRequired : fallback});
  }
  const int found = node_ == nullptr ? -1 : FindKey(*node_, key);
  if (found >= 0) return &node_->items[found];
  if (need == Need::kRequired) Error(key, "missing", Expected(type));
  return nullptr;
}

void MapReader::Scalar(const std::string& key, const std::string& type, const std::string& fallback,
                       Need need, const Setter& setter) {
  const YamlNode* value = Declare(key, type, fallback, need);
  if (value == nullptr) return;
  std::string problem;
  if (value->kind == YamlNode::Kind::kNull) {
    problem = "no value";
  } else if (value->kind != YamlNode::Kind::kScalar) {
    problem = value->kind == YamlNode::Kind::kList ? "a list" : "a mapping";
  } else {
    problem = setter(*value);
  }
  if (!problem.empty()) Error(key, problem, Expected(type));
}

void MapReader::Text(const std::string& key, std::string* out, const std::string& type,
                     const TextCheck& check, Need need) {
  Scalar(key, type, out->empty() ? "none" : *out, need, [&](const YamlNode& value) {
    std::string problem = check(value.text);
    if (problem.empty()) *out = value.text;
    return problem;
  });
}

void MapReader::Name(const std::string& key, std::string* out, Need need,
                     const std::string& fallback) {
  Scalar(key, kNameType, fallback, need, [&](const YamlNode& value) -> std::string {
    if (!IsName(value.text)) return absl::StrCat("'", value.text, "' is no name");
    *out = value.text;
    return "";
  });
}

void MapReader::Bool(const std::string& key, bool* out) {
  Scalar(key, "true or false", *out ? "true" : "false", Need::kOptional,
         [&](const YamlNode& value) -> std::string {
           const bool is_true = value.text == "true";
           if (value.quoted || (!is_true && value.text != "false")) {
             return absl::StrCat(Quoted(value), " is neither");
           }
           *out = is_true;
           return "";
         });
}

void MapReader::WideInteger(const std::string& key, uint64_t* out, uint64_t low, uint64_t high,
                            const std::string& fallback) {
  Scalar(key, absl::StrCat("integer from ", low, " to ", high),
         fallback.empty() ? absl::StrCat(*out) : fallback, Need::kOptional,
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
void MapReader::Number(const std::string& key, T* out, const NumberRange& range) {
  Scalar(key, range.text, FormatNumber(*out), Need::kOptional, [&](const YamlNode& value) {
    T number = 0;
    NumberFault fault = ParseNumber(value.text, &number);
    if (fault == NumberFault::kNone && (number < range.low || number > range.high)) {
      fault = NumberFault::kOutOfRange;
    }
    std::string problem = NumberProblem(fault, value, "a finite number");
    if (problem.empty()) *out = number;
    return problem;
  });
}

template void MapReader::Number(const std::string&, float*, const NumberRange&);
template void MapReader::Number(const std::string&, double*, const NumberRange&);

void MapReader::Microseconds(const std::string& key, std::chrono::microseconds* out,
                             std::chrono::microseconds unit, std::chrono::microseconds low,
                             std::chrono::microseconds high) {
  const std::string type = absl::StrCat(
      "duration from ", FormatDuration(low), " to ", FormatDuration(high), " (a number and ",
      FormatDuration(unit).substr(1), unit.count() == 1 ? ", ms" : "", ", s or m)");
  Scalar(key, type, FormatDuration(*out), Need::kOptional,
         [&](const YamlNode& value) -> std::string {
           const auto duration = ParseDuration(value.text);
           if (!duration) return absl::StrCat(Quoted(value), " is not a duration");
           if (*duration < low || *duration > high || *duration % unit != unit.zero()) {
             return absl::StrCat(value.text, " is out of range");
           }
           *out = *duration;
           return "";
         });
}

void MapReader::Character(const std::string& key, char* out) {
  const std::string fallback =
      *out == '\0' ? "none" : absl::StrCat("\"", std::string(1, *out), "\"");
  Scalar(key, "one ASCII character in quotes, no quote, letter, digit or line end", fallback,
         Need::kOptional, [&](const YamlNode& value) -> std::string {
           const unsigned char c = value.text.empty() ? '\0' : value.text[0];
           const bool printable = absl::ascii_isprint(c) || c == '\t';
           if (value.text.size() != 1 || !printable || absl::ascii_isalnum(c) || c == '"') {
             return absl::StrCat("'", value.text, "' cannot separate");
           }
           *out = value.text[0];
           return "";
         });
}

void MapReader::Texts(const std::string& key, std::vector<std::string>* out, CountRange count,
                      Need need, const std::string& type, const TextCheck& check) {
  std::vector<std::string> texts;
  const auto quote = [](std::string* text, const std::string& value) {
    absl::StrAppend(text, "\"", value, "\"");
  };
  const std::string fallback = absl::StrCat("[", absl::StrJoin(*out, ", ", quote), "]");
  List(key, count, need, type, fallback, [&](const YamlNode* node, const std::string& path) {
    if (node == nullptr) return;
    if (node->kind != YamlNode::Kind::kScalar) {
      context_->diagnostics.Report(path, "not a text", Expected(type));
      return;
    }
    const std::string problem = check ? check(node->text) : "";
    if (!problem.empty()) {
      context_->diagnostics.Report(path, problem, Expected(type));
      return;
    }
    texts.push_back(node->text);
  });
  if (Has(key)) *out = std::move(texts);
}

void MapReader::TextOrTexts(const std::string& key, std::vector<std::string>* out, CountRange count,
                            Need need, const std::string& type) {
  const int found = node_ == nullptr ? -1 : FindKey(*node_, key);
  if (found < 0 || node_->items[found].kind != YamlNode::Kind::kScalar) {
    Texts(key, out, count, need, absl::StrCat(type, "; or one of them"));
    return;
  }
  known_.push_back(key);
  *out = {node_->items[found].text};
}

void MapReader::Word(const std::string& key, const std::vector<std::string>& words,
                     size_t* chosen) {
  Scalar(key, absl::StrCat("one of ", absl::StrJoin(words, ", ")), words[*chosen], Need::kOptional,
         [&](const YamlNode& value) -> std::string {
           const auto found = std::find(words.begin(), words.end(), value.text);
           if (found == words.end()) return absl::StrCat(Quoted(value), " is none of them");
           *chosen = static_cast<size_t>(found - words.begin());
           return "";
         });
}

void MapReader::Map(const std::string& key, const Body& body) {
  known_.push_back(key);
  const int found = node_ == nullptr ? -1 : FindKey(*node_, key);
  Read(found < 0 ? nullptr : &node_->items[found], PathOf(key), context_, body);
}

void MapReader::Maps(const std::string& key, CountRange count, const Body& body,
                     const std::string& type) {
  const Need need = count.low > 0 ? Need::kRequired : Need::kOptional;
  List(key, count, need, type, "[]",
       [&](const YamlNode* node, const std::string& path) { Read(node, path, context_, body); });
}

void MapReader::List(const std::string& key, CountRange count, Need need, const std::string& type,
                     const std::string& fallback, const Element& element) {
  const std::string list_type = ListType(count, type);
  const YamlNode* list = Declare(key, list_type, fallback, need);
  if (describing()) element(nullptr, PathOf(absl::StrCat(key, ".0")));
  if (list == nullptr) return;
  if (list->kind != YamlNode::Kind::kList) {
    Error(key, list->kind == YamlNode::Kind::kNull ? "no value" : "not a list",
          Expected(list_type));
    return;
  }
  if (list->items.size() < count.low || list->items.size() > count.high) {
    Error(key, absl::StrCat(list->items.size(), " elements"), Expected(list_type));
    return;
  }
  for (size_t i = 0; i < list->items.size(); ++i) {
    element(&list->items[i], PathOf(absl::StrCat(key, ".", i)));
  }
}

void MapReader::OnlyWith(bool holds, const std::string& condition,
                         const std::vector<std::string>& keys) {
  if (holds) return;
  for (const std::string& key : keys) {
    if (Has(key)) {
      Error(key, "says nothing here", absl::StrCat("remove it; it belongs to ", condition));
    }
  }
}

}  // namespace simurgh
