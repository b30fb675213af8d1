#include "data/reading/json_events.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>  // This file is the library's only user.

namespace simurgh {
namespace {

namespace json = boost::json;
using ErrorCode = json::error_code;

// The handler of json::basic_parser. Parts of texts and numbers arrive only with escapes, since the
// document is parsed at once.
class Handler {
 public:
  static constexpr size_t max_object_size = -1;
  static constexpr size_t max_array_size = -1;
  static constexpr size_t max_key_size = -1;
  static constexpr size_t max_string_size = -1;

  explicit Handler(JsonEvents& events) : events_(events) {}

  bool ended() const { return ended_; }

  bool on_document_begin(ErrorCode&) { return true; }
  bool on_document_end(ErrorCode&) { return true; }
  bool on_object_begin(ErrorCode& error) { return Go(events_.BeginObject(), error); }
  bool on_object_end(size_t, ErrorCode& error) { return Go(events_.EndObject(), error); }
  bool on_array_begin(ErrorCode& error) { return Go(events_.BeginArray(), error); }
  bool on_array_end(size_t, ErrorCode& error) { return Go(events_.EndArray(), error); }
  bool on_key_part(json::string_view part, size_t, ErrorCode&) { return AddPart(part); }
  bool on_key(json::string_view last, size_t, ErrorCode& error) {
    const bool go = events_.Key(Whole(last));
    parts_.clear();
    return Go(go, error);
  }
  bool on_string_part(json::string_view part, size_t, ErrorCode&) { return AddPart(part); }
  bool on_string(json::string_view last, size_t, ErrorCode& error) {
    const bool go = events_.Scalar({JsonScalar::Kind::kText, Whole(last)});
    parts_.clear();
    return Go(go, error);
  }
  bool on_number_part(json::string_view, ErrorCode&) { return true; }
  bool on_int64(int64_t, json::string_view digits, ErrorCode& error) {
    return Number(digits, error);
  }
  bool on_uint64(uint64_t, json::string_view digits, ErrorCode& error) {
    return Number(digits, error);
  }
  bool on_double(double, json::string_view digits, ErrorCode& error) {
    return Number(digits, error);
  }
  bool on_bool(bool value, ErrorCode& error) {
    return Go(events_.Scalar({JsonScalar::Kind::kBool, value ? "true" : "false"}), error);
  }
  bool on_null(ErrorCode& error) { return Go(events_.Scalar({}), error); }
  bool on_comment_part(json::string_view, ErrorCode&) { return true; }
  bool on_comment(json::string_view, ErrorCode&) { return true; }

 private:
  bool AddPart(json::string_view part) {
    parts_.append(part.data(), part.size());
    return true;
  }
  std::string_view Whole(json::string_view last) {
    if (parts_.empty()) return {last.data(), last.size()};
    AddPart(last);
    return parts_;
  }
  bool Number(json::string_view digits, ErrorCode& error) {
    const std::string_view text{digits.data(), digits.size()};
    return Go(events_.Scalar({JsonScalar::Kind::kNumber, text}), error);
  }
  // The parser needs an error to stop.
  bool Go(bool go, ErrorCode& error) {
    if (!go) {
      ended_ = true;
      error = json::error::incomplete;
    }
    return go;
  }

  JsonEvents& events_;
  std::string parts_;
  bool ended_ = false;
};

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

// Returns the word around a byte, such as NaN, which Python's json writes by default.
std::string_view WordAt(std::string_view text, size_t byte) {
  const auto is_part = [](char c) { return absl::ascii_isalpha(c) || c == '-' || c == '+'; };
  size_t begin = std::min(byte, text.size());
  size_t end = begin;
  while (begin > 0 && is_part(text[begin - 1])) --begin;
  while (end < text.size() && is_part(text[end])) ++end;
  return text.substr(begin, end - begin);
}

Status SyntaxError(const ErrorCode& error, std::string_view text, size_t byte,
                   const JsonEvents& events) {
  std::string place = events.Where();
  if (!place.empty()) place = absl::StrCat(" in ", place);
  constexpr size_t kLongestWord = 16;
  const std::string word(WordAt(text, byte));
  if (!word.empty() && word.size() <= kLongestWord && absl::ascii_isalpha(word.back())) {
    return absl::InvalidArgumentError(
        absl::StrCat("not JSON: ", word, " at byte ", byte, place,
                     "; use null for a missing value, and double quotes around a text"));
  }
  return absl::InvalidArgumentError(absl::StrCat("not JSON: ", error.message(), " at byte ", byte,
                                                 place, "; send one JSON object in UTF-8"));
}

}  // namespace

Status ParseJson(std::string_view text, JsonEvents& events) {
  const size_t mark = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  json::basic_parser<Handler> parser({}, events);
  ErrorCode error;
  const size_t used =
      mark + parser.write_some(/*more=*/false, text.data() + mark, text.size() - mark, error);
  if (parser.handler().ended()) return absl::OkStatus();
  if (error) return SyntaxError(error, text, used, events);
  if (used < text.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not JSON: more text after the object at byte ", used, "; send one object"));
  }
  return absl::OkStatus();
}

void AppendJsonNumber(float number, std::string& out) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char text[32];
  const auto result = std::to_chars(text, text + sizeof(text), number);
  out.append(text, result.ptr);
}

}  // namespace simurgh
