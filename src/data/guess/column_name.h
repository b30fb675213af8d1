#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simurgh {

// Guess of a column's cells from its name.
enum class NameHint {
  kNone,
  kSurelyIds,     // "user_id", "zip code", "item:token"
  kIds,           // "movie", "C14"
  kNumber,        // "age", "item_price"
  kSurelyNumber,  // "rating:float"
};
NameHint HintOf(std::string_view name);

// Returns the words of a name, in lower case: "isClicked_2" has "is" and "clicked". Digits are left
// out, except after a single letter: "C14" is "c14".
std::vector<std::string> WordsOf(std::string_view name);

// Returns a name without the type in files of RecBole: "user_id" of "user_id:token".
// Source: RecBole, "Atomic Files".
std::string_view WithoutType(std::string_view name);

// Kinds of names of labels. The first one fits best.
enum class LabelName : uint8_t {
  kLabel,      // "label", "target"
  kClick,      // "is_click"
  kAction,     // "purchased", "like"
  kResult,     // "churn", "is_fraud"; the column can also be an input
  kRating,     // "rating"; the values can be numbers
  kRate,       // "ctr"; the column can also be an input
  kLaterRate,  // "cvr"; the column can also be an input
};
std::optional<LabelName> LabelNameOf(std::string_view name);

// Returns whether the name is one of a score that can be the label, or be known before it: "stars",
// "Book-Rating", "review_score".
bool NamesScore(std::string_view name);

// Returns whether the name is one of things that a user has seen before: "hist_item".
bool NamesHistory(std::string_view name);

// Returns whether the name is one of a property with two values that is seldom a label: "gender".
bool NamesProperty(std::string_view name);

}  // namespace simurgh
