#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace simurgh {

// The items that users had before a row.
//
// Memory: 24 bytes a positive row.
// Threads: one owner.
class UserHistories {
 public:
  static constexpr size_t kMost = 50;  // Items of a history.

  // Adds a positive row. user: hash of its text. row: number of the row, which orders equal times.
  // item: its number.
  void Add(uint64_t user, double time, uint64_t row, uint32_t item) {
    users_[user].push_back({time, row, item});
  }

  // Orders the rows. Requires no Add() after it.
  void Sort();

  // Returns the items of the positive rows before this one, the last one first, kMost at most.
  // The row's own item is left out. Requires Sort().
  std::vector<uint32_t> Before(uint64_t user, double time, uint64_t row, uint32_t item) const;

 private:
  struct Positive {
    double time;
    uint64_t row;
    uint32_t item;
  };
  static bool IsEarlier(const Positive& a, const Positive& b) {
    return a.time != b.time ? a.time < b.time : a.row < b.row;
  }

  std::unordered_map<uint64_t, std::vector<Positive>> users_;
};

// Returns a separator for lists of the ids, such as a blank.
char SeparatorOf(const std::vector<std::string_view>& ids);

}  // namespace simurgh
