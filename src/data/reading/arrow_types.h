#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "simurgh/arrow_module.h"

// The types of Arrow arrays that rows are read from.
// Source: the Arrow C data interface, https://arrow.apache.org/docs/format/CDataInterface.html.
namespace simurgh::arrow {

// Type of the elements of an array, without lists and dictionaries.
enum class Type : uint8_t {
  kNull,
  kBool,
  kInt8,
  kUInt8,
  kInt16,
  kUInt16,
  kInt32,
  kUInt32,
  kInt64,
  kUInt64,
  kHalf,
  kFloat,
  kDouble,
  kDecimal,
  kText,       // 32-bit offsets.
  kLargeText,  // 64-bit offsets.
  kTextView,
  kFixedText,
};

inline bool IsText(Type type) { return type >= Type::kText; }
inline bool IsInteger(Type type) { return Type::kInt8 <= type && type <= Type::kUInt64; }

inline bool IsSet(const uint8_t* bits, int64_t bit) {
  return bits == nullptr || (bits[bit / 8] >> (bit % 8) & 1) != 0;
}

// An array without lists. A dictionary's elements are places in another array.
struct Values {
  Type type = Type::kNull;
  int32_t width = 0;                   // kFixedText, kDecimal: bytes.
  int32_t scale = 0;                   // kDecimal: decimals.
  double seconds = 0;                  // Seconds of a unit of time; 0: no time.
  std::unique_ptr<Values> dictionary;  // May be null.

  // The members below belong to the present array.
  const uint8_t* validity = nullptr;  // Bits; null: all are valid.
  const void* data = nullptr;
  const void* offsets = nullptr;         // kText, kLargeText.
  const void* const* buffers = nullptr;  // kTextView: buffers of the texts.
  const int64_t* sizes = nullptr;        // kTextView: sizes of the buffers.
  int64_t count_of_buffers = 0;
  int64_t end_of_data = 0;  // kText, kLargeText: the last offset.
  int64_t offset = 0;
  int64_t length = 0;

  bool is_valid(int64_t i) const { return type != Type::kNull && IsSet(validity, offset + i); }
  template <typename Number>
  Number at(int64_t i) const {
    return static_cast<const Number*>(data)[offset + i];
  }
};

// Returns the array of a schema without lists. Errors: INVALID_ARGUMENT for a type that is not
// read.
StatusOr<Values> ValuesOf(const ArrowSchema& schema);

// Returns the error of a type that is not read. format: that of its schema.
Status NotRead(std::string_view format);

// Reads the number after the prefix of a format. Returns false if there is none, or a negative one.
bool ReadWidth(std::string_view format, std::string_view prefix, int32_t* width);

}  // namespace simurgh::arrow
