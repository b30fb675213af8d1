#include "data/guess/column_name.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace simurgh {
namespace {

using Word = std::string_view;

// Names of things that have ids.
constexpr std::array kThings = std::to_array<Word>(
    {"user",      "users",    "item",     "items",       "movie",       "film",     "site",
     "ad",        "ads",      "advert",   "category",    "categories",  "cate",     "cat",
     "store",     "shop",     "brand",    "campaign",    "adgroup",     "creative", "advertiser",
     "publisher", "seller",   "merchant", "vendor",      "customer",    "client",   "member",
     "visitor",   "person",   "account",  "session",     "device",      "app",      "application",
     "product",   "goods",    "article",  "asin",        "isbn",        "book",     "song",
     "track",     "artist",   "album",    "playlist",    "video",       "author",   "channel",
     "show",      "episode",  "game",     "hotel",       "restaurant",  "business", "venue",
     "poi",       "place",    "city",     "region",      "country",     "state",    "county",
     "province",  "district", "location", "destination", "station",     "airport",  "carrier",
     "airline",   "route",    "news",     "topic",       "tag",         "genre",    "keyword",
     "query",     "page",     "url",      "domain",      "ip",          "os",       "browser",
     "agent",     "company",  "employee", "department",  "dept",        "mgr",      "manager",
     "resource",  "student",  "skill",    "problem",     "question",    "exercise", "teacher",
     "school",    "course",   "job",      "recipe",      "segment",     "cluster",  "pid",
     "iid",       "vid",      "mid",      "cid",         "sid",         "bid_id",   "slot",
     "placement", "template", "market",   "franchise",   "subcategory", "subject",  "post"});
// Ends of names of ids.
constexpr std::array kIdWords =
    std::to_array<Word>({"id", "ids", "code", "zip", "zipcode", "postcode", "hash", "key", "uid",
                         "uuid", "guid", "sku", "ean", "upc"});
// Words that mean a number, wherever the name has them.
constexpr std::array kMeasures =
    std::to_array<Word>({"num",   "n",     "nr",    "no",      "number", "count",  "counts", "cnt",
                         "total", "sum",   "avg",   "average", "mean",   "median", "max",    "min",
                         "std",   "ratio", "share", "percent", "pct",    "rate",   "freq"});
// Ends of names of numbers.
constexpr std::array kNumberWords = std::to_array<Word>(
    {"age",       "price",     "cost",        "amount",   "value",    "fee",       "income",
     "salary",    "balance",   "budget",      "bid",      "spend",    "revenue",   "discount",
     "score",     "stars",     "quantity",    "qty",      "size",     "length",    "width",
     "height",    "depth",     "weight",      "area",     "distance", "duration",  "seconds",
     "minutes",   "hours",     "days",        "weeks",    "months",   "years",     "time",
     "timestamp", "ts",        "date",        "datetime", "year",     "month",     "day",
     "hour",      "minute",    "second",      "week",     "latitude", "longitude", "lat",
     "lon",       "lng",       "temperature", "temp",     "humidity", "speed",     "gain",
     "loss",      "views",     "clicks",      "likes",    "visits",   "orders",    "adults",
     "children",  "babies",    "nights",      "requests", "changes",  "rooms",     "beds",
     "steps",     "population"});

bool IsOne(std::string_view word, const auto& words) {
  return std::ranges::find(words, word) != words.end();
}

// Returns whether a word is a thing with an ending for ids, such as "userid".
bool IsThingWithId(std::string_view word) {
  for (const Word end : {"ids", "id", "code", "no", "key"}) {
    if (!word.ends_with(end)) continue;
    if (IsOne(word.substr(0, word.size() - end.size()), kThings)) return true;
  }
  return false;
}

// Returns whether a word is an id of a thing that is not in kThings, such as "feedid".
bool HasUnknownId(std::string_view word) {
  constexpr std::array kOthers = std::to_array<Word>(
      {"paid", "oid", "grid", "valid", "covid", "solid", "quid", "luid", "mid", "rapid", "bid"});
  return word.size() > 4 && word.ends_with("id") &&
         std::ranges::none_of(kOthers, [&](Word other) { return word.ends_with(other); });
}

// Returns the type in a name: "token" of "user_id:token".
std::string_view TypeOf(std::string_view name) {
  for (const Word type : {"token_seq", "token", "float_seq", "float"}) {
    if (name.size() > type.size() + 1 && name.ends_with(type) &&
        name[name.size() - type.size() - 1] == ':') {
      return type;
    }
  }
  return "";
}

bool IsUpper(char c) { return absl::ascii_isupper(static_cast<unsigned char>(c)); }
bool IsLower(char c) { return absl::ascii_islower(static_cast<unsigned char>(c)); }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

}  // namespace

std::string_view WithoutType(std::string_view name) {
  const std::string_view type = TypeOf(name);
  return type.empty() ? name : name.substr(0, name.size() - type.size() - 1);
}

std::vector<std::string> WordsOf(std::string_view name) {
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, ""));
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    if (IsDigit(c)) {
      // "C14" is a code, and "item2" is not.
      const bool is_code =
          i > 0 && word.size() + 1 == i + 1 && (word.size() == 1 || IsDigit(word.back()));
      if (is_code) {
        word.push_back(c);
      } else {
        end();
      }
    } else if (absl::ascii_isalpha(static_cast<unsigned char>(c))) {
      const bool is_new = IsUpper(c) && i > 0 &&
                          (IsLower(name[i - 1]) ||
                           (IsUpper(name[i - 1]) && i + 1 < name.size() && IsLower(name[i + 1])));
      if (is_new || (!word.empty() && IsDigit(word.back()))) end();
      word.push_back(absl::ascii_tolower(static_cast<unsigned char>(c)));
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      word.push_back(c);
    } else {
      end();
    }
  }
  end();
  return words;
}

NameHint HintOf(std::string_view name) {
  const std::string_view type = TypeOf(name);
  if (type.starts_with("token")) return NameHint::kSurelyIds;
  if (type.starts_with("float")) return NameHint::kSurelyNumber;
  const std::vector<std::string> words = WordsOf(name);
  if (words.empty()) return NameHint::kNone;
  const std::string& last = words.back();
  const bool is_measure =
      std::ranges::any_of(words, [](const std::string& word) { return IsOne(word, kMeasures); });
  const bool ends_as_id = IsOne(last, kIdWords) || IsThingWithId(last);
  constexpr std::array kNumbered = std::to_array<Word>({"no", "nr", "num", "number"});
  if (words.size() > 1 && IsOne(last, kNumbered)) {
    // "store_number" names an id, and "total_number" does not.
    return IsOne(words[words.size() - 2], kThings) ? NameHint::kIds : NameHint::kNone;
  }
  if (is_measure && !ends_as_id) return NameHint::kNumber;
  if (ends_as_id) return NameHint::kSurelyIds;
  if (IsOne(last, kNumberWords)) return NameHint::kNumber;
  if (IsOne(last, kThings) || HasUnknownId(last)) return NameHint::kIds;
  // Data of Criteo and Avazu name categories so.
  const bool is_code = words.size() == 1 && last.size() > 1 && last[0] == 'c' && IsDigit(last[1]);
  return is_code ? NameHint::kIds : NameHint::kNone;
}

namespace {

constexpr std::array kPlain = std::to_array<Word>({"label", "labels", "target", "y", "outcome"});
constexpr std::array kClicks = std::to_array<Word>({"click", "clicked", "clk"});
constexpr std::array kActions = std::to_array<Word>(
    {"like",       "liked",      "buy",       "bought",    "purchase",   "purchased", "ordered",
     "conversion", "converted",  "convert",   "conv",      "attributed", "install",   "installed",
     "download",   "downloaded", "favorite",  "favourite", "follow",     "followed",  "share",
     "shared",     "forward",    "forwarded", "commented", "cart",       "addtocart", "subscribed",
     "watched",    "upvote",     "upvoted",   "fav",       "faved"});
constexpr std::array kResults = std::to_array<Word>(
    {"churn",    "churned",   "exited",      "cancel",   "canceled",    "cancelled", "survived",
     "response", "responded", "class",       "fraud",    "default",     "defaulted", "correct",
     "late",     "returned",  "booked",      "booking",  "played",      "skipped",   "won",
     "result",   "success",   "spam",        "order",    "recommended", "feedback",  "comment",
     "relevant", "relevance", "interaction", "positive", "subscribe",   "hired",     "approved"});
constexpr std::array kRatings = std::to_array<Word>({"rating", "ratings"});
// Scores that the label can be.
constexpr std::array kScores =
    std::to_array<Word>({"score", "scores", "star", "stars", "overall", "grade"});
constexpr std::array kRates = std::to_array<Word>({"ctr"});
constexpr std::array kLaterRates = std::to_array<Word>({"cvr", "ctcvr"});
// Words that surround the words above.
constexpr std::array kFillers =
    std::to_array<Word>({"is", "has", "was", "did", "will", "if", "it", "the", "on", "or", "not",
                         "flag", "ind", "event"});
constexpr std::array kProperties = std::to_array<Word>(
    {"gender",   "sex",     "male",  "female", "weekend", "weekday", "holiday", "workday",
     "mobile",   "desktop", "wifi",  "device", "married", "smoker",  "student", "adult",
     "platform", "os",      "train", "test",   "split",   "version", "type",    "homework"});

// Returns the words of a name without kFillers: "clicked" of "is_clicked".
std::vector<std::string> CoreOf(std::string_view name) {
  std::vector<std::string> words = WordsOf(WithoutType(name));
  std::erase_if(words, [](const std::string& word) { return IsOne(word, kFillers); });
  for (std::string& word : words) {
    // A name can be "isclick".
    if (word.size() > 4 && word.starts_with("is")) word.erase(0, 2);
  }
  return words;
}

bool IsLabelWord(const std::string& word) { return word == "label" || word == "target"; }

bool IsEvent(const std::string& word) { return IsOne(word, kClicks) || IsOne(word, kActions); }

}  // namespace

std::optional<LabelName> LabelNameOf(std::string_view name) {
  std::vector<std::string> words = CoreOf(name);
  if (words == std::vector<std::string>{"long", "view"}) return LabelName::kAction;
  if (words == std::vector<std::string>{"add", "to", "cart"}) return LabelName::kAction;
  // Names can be "click_label" and "label_of_ctr".
  const bool has_label = words.size() == 2 && std::erase_if(words, IsLabelWord) == 1;
  if (words.size() > 1 && std::ranges::count_if(words, IsEvent) == 1) {
    // A name can be "Clicked on Ad".
    std::erase_if(words,
                  [](const std::string& word) { return IsOne(word, kThings) && !IsEvent(word); });
    if (words.size() == 1 && !IsEvent(words[0])) return std::nullopt;
  }
  if (words.size() != 1) return std::nullopt;
  const std::string& word = words[0];
  const bool is_numbered = std::ranges::any_of(name, IsDigit);
  const bool is_click = IsOne(word, kClicks) || (has_label && IsOne(word, kRates));
  if (is_click && !is_numbered) return LabelName::kClick;
  if (IsOne(word, kPlain) && !is_numbered) return LabelName::kLabel;
  if (has_label || is_click || IsOne(word, kPlain)) return LabelName::kAction;
  if (IsOne(word, kActions)) return LabelName::kAction;
  if (IsOne(word, kResults)) return LabelName::kResult;
  if (IsOne(word, kRatings)) return LabelName::kRating;
  if (IsOne(word, kRates)) return LabelName::kRate;
  if (IsOne(word, kLaterRates)) return LabelName::kLaterRate;
  return std::nullopt;
}

bool NamesScore(std::string_view name) {
  const std::vector<std::string> words = CoreOf(name);
  const auto is_score = [](const std::string& word) {
    return IsOne(word, kScores) || word.starts_with("rating") || word.ends_with("rating");
  };
  return std::ranges::any_of(words, is_score) &&
         std::ranges::all_of(words, [&](const std::string& word) {
           return is_score(word) || word == "review" || word == "value" || IsOne(word, kThings);
         });
}

bool NamesHistory(std::string_view name) {
  static constexpr std::array kHistory =
      std::to_array<Word>({"hist",     "history",   "histories", "seq",       "sequence", "past",
                           "previous", "prev",      "recent",    "last",      "seen",     "viewed",
                           "visited",  "clicked",   "bought",    "purchased", "played",   "watched",
                           "behavior", "behaviors", "behaviour", "behaviours"});
  const std::vector<std::string> words = WordsOf(name);  // The type "token_seq" of RecBole counts.
  return std::ranges::any_of(words, [](const std::string& word) { return IsOne(word, kHistory); });
}

bool NamesProperty(std::string_view name) {
  const std::vector<std::string> words = WordsOf(WithoutType(name));
  return std::ranges::any_of(words,
                             [](const std::string& word) { return IsOne(word, kProperties); });
}

}  // namespace simurgh
