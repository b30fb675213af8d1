#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace simurgh {

// A value that is neither an object nor an array.
struct JsonScalar {
  enum class Kind { kNull, kBool, kNumber, kText };

  Kind kind = Kind::kNull;
  // A text without escapes, the digits of a number as written, or true or false.
  std::string_view text = {};
};

// Receives a document in its order. A function that returns false ends the parsing.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;

  virtual bool BeginObject() = 0;
  virtual bool EndObject() = 0;
  virtual bool BeginArray() = 0;
  virtual bool EndArray() = 0;
  virtual bool Key(std::string_view key) = 0;
  virtual bool Scalar(const JsonScalar& value) = 0;

  // Returns the place in the document for an error: "column 'age', row 3", or an empty text.
  virtual std::string Where() const { return ""; }
};

// Parses one document. A byte order mark before it is skipped. Numbers, and texts without escapes,
// are parts of `json`. Other texts, and keys, are valid until their event returns. Objects and
// arrays may be 32 deep. Errors: INVALID_ARGUMENT, "not JSON: ...", naming the byte, and the place
// that the events know. An event that has ended the parsing is not an error.
Status ParseJson(std::string_view json, JsonEvents& events);

// Appends the shortest text that gives this float; null for NaN.
void AppendJsonNumber(float number, std::string& out);

}  // namespace simurgh
