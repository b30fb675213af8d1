#include "services/serving/json_events.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>  // The library's only use.

namespace simurgh {
namespace {

namespace json = boost::json;
using ErrorCode = json::error_code;

// What json::basic_parser calls. Parts of texts and numbers arrive only with escapes, since the
// document is parsed at once.
class Handler {
 public:
  static constexpr size_t max_object_size = -1;
  static constexpr size_t max_array_size = -1;
  static constexpr size_t max_key_size = -1;
  static constexpr size_t max_string_size = -1;

  Handler(RequestMemory& memory, JsonEvents& events) : memory_(memory), events_(events) {}

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
    const std::string_view text = memory_.Keep(Whole(last));
    parts_.clear();
    return Go(events_.Scalar({JsonScalar::Kind::kText, text}), error);
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
    return Go(events_.Scalar({JsonScalar::Kind::kNumber, memory_.Keep(text)}), error);
  }
  // The parser needs an error to stop.
  bool Go(bool go, ErrorCode& error) {
    if (!go) {
      ended_ = true;
      error = json::error::incomplete;
    }
    return go;
  }

  RequestMemory& memory_;
  JsonEvents& events_;
  std::string parts_;
  bool ended_ = false;
};

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t length = byte < 0x80   ? 1
                          : byte < 0xc2 ? 0
                          : byte < 0xe0 ? 2
                          : byte < 0xf0 ? 3
                          : byte < 0xf5 ? 4
                                        : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return false;
    }
    i += length;
  }
  return true;
}

}  // namespace

Status ParseJson(std::string_view text, RequestMemory& memory, JsonEvents& events) {
  json::basic_parser<Handler> parser({}, memory, events);
  ErrorCode error;
  const size_t used = parser.write_some(/*more=*/false, text.data(), text.size(), error);
  if (parser.handler().ended()) return absl::OkStatus();
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("the body is not JSON: ", error.message(),
                                                   " at byte ", used,
                                                   "; send one JSON object in UTF-8"));
  }
  if (used < text.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the body is not JSON: more text after the object at byte ", used, "; send one object"));
  }
  return absl::OkStatus();
}

void AppendJsonText(std::string_view text, std::string& out) {
  const bool is_utf8 = IsUtf8(text);
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7f || (byte >= 0x80 && !is_utf8)) {
      absl::StrAppend(&out, "\\u00", absl::Hex(byte, absl::kZeroPad2));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
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
