#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace simurgh {

// One value of a column, where rows do not come from a file.
struct Cell {
  enum class Kind : uint8_t {
    kMissing,
    kText,    // The text of a cell of a file, without quotes.
    kNumber,  // Of a dense column.
    kList,    // Of an id column that may have several: its ids, apart.
  };

  Kind kind = Kind::kMissing;
  union {  // Only the member of `kind` may be read; of a missing value none.
    std::string_view text = {};
    double number;
    std::span<const std::string_view> list;
  };
  std::span<const float> weights = {};  // kList: of its ids; empty: each is 1.
};

}  // namespace simurgh
