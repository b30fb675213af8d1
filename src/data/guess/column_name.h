#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simurgh {

// What a column's name tells of its cells.
enum class NameHint {
  kNone,
  kSurelyIds,     // "user_id", "zip code", "item:token"
  kIds,           // "movie", "C14"
  kNumber,        // "age", "item_price"
  kSurelyNumber,  // "rating:float"
};
NameHint HintOf(std::string_view name);

// The words of a name, in lower case: "isClicked_2" has "is" and "clicked". Digits are left out,
// except after a single letter: "C14" is "c14".
std::vector<std::string> WordsOf(std::string_view name);

// A name without the type of a file of RecBole: "user_id" of "user_id:token".
// Source: RecBole, "Atomic Files".
std::string_view WithoutType(std::string_view name);

// How well a name fits a label; the least is best.
enum class LabelName : uint8_t {
  kLabel,      // "label", "target"
  kClick,      // "is_click"
  kAction,     // "purchased", "like"
  kResult,     // "churn", "is_fraud"; it can as well be something to learn from
  kRating,     // "rating"; numbers, too
  kRate,       // "ctr"; as kResult
  kLaterRate,  // "cvr"; as kResult
};
std::optional<LabelName> LabelNameOf(std::string_view name);

// Whether the name is one of a score that can be the label, or be known before it: "stars",
// "Book-Rating", "review_score".
bool NamesScore(std::string_view name);

// Whether the name is one of things that a user has seen before: "hist_item".
bool NamesHistory(std::string_view name);

// Whether the name is one of a property with two values that is seldom a label: "gender".
bool NamesProperty(std::string_view name);

}  // namespace simurgh
