// What columns tell of the label, what their names tell, and options that name them.

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "data/guess/column_name.h"
#include "data/guess/data_guess.h"
#include "data/guess/evidence.h"
#include "data/guess/kept_rows.h"
#include "data/guess/row_split.h"
#include "data/processing/times.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/data/guessed.h"

namespace simurgh {
namespace {

using Catch::Contains;
using Kind = ColumnConfig::Kind;
using testing::ErrorOf;
using testing::Guessed;

// Rows of a column and a label whose log odds depend on it.
class Labels {
 public:
  uint64_t Pick(uint64_t count) { return random_() % count; }
  double Normal() { return normal_(random_); }
  // A number of `value`, the same in each call.
  static double WeightOf(uint64_t value) {
    std::mt19937 own(static_cast<uint32_t>(value * 7919 + 1));
    return std::normal_distribution<double>()(own);
  }
  int Label(double logit) {
    return std::uniform_real_distribution<double>()(random_) < 1 / (1 + std::exp(-logit)) ? 1 : 0;
  }

 private:
  std::mt19937 random_{11};
  std::normal_distribution<double> normal_;
};

std::string Rows(const std::string& header, size_t rows, const std::function<std::string()>& row) {
  std::string text = header + "\n";
  for (size_t i = 0; i < rows; ++i) absl::StrAppend(&text, row(), "\n");
  return text;
}

TEST_CASE("Losses are those of means outside of a fold", "[guess]") {
  Labels labels;
  KeptRows rows;
  // The label is 1 in 4 of 5 rows of the value 3, and in 1 of 5 of the others.
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t value = labels.Pick(8);
    const std::string cell = absl::StrCat(value);
    const std::string label = absl::StrCat(labels.Pick(5) == 0 ? value != 3 : value == 3);
    const std::vector<std::string_view> cells = {cell, label};
    rows.Add(cells);
  }
  const KeptLabels kept(rows, 1, {.kind = Kind::kLabel});
  const Evidence evidence = kept.Measure(0, true, false, {});
  CHECK(evidence.rows == 20'000);
  const auto entropy = [](double p) { return -p * std::log(p) - (1 - p) * std::log(1 - p); };
  const double mean = 0.2 + 0.6 / 8;
  CHECK(evidence.constant == Approx(entropy(mean)).epsilon(0.02));
  CHECK(evidence.by_value == Approx(entropy(0.2)).epsilon(0.02));
  CHECK(evidence.by_range == Approx(evidence.by_value).epsilon(0.001));  // Each value is a range.
  CHECK(evidence.by_number > evidence.by_value + 0.05);
  CHECK(evidence.are_integral);
  CHECK(evidence.IsSureBy(evidence.smooth));
  CHECK_FALSE(evidence.IsSureBy(evidence.value_beyond_smooth));
}

TEST_CASE("Integers are ids where their values tell more than their order", "[guess]") {
  Labels labels;
  const Guessed guessed(Rows("a,b,c,d,label", 20'000, [&] {
    const uint64_t a = labels.Pick(600);          // Ids.
    const uint64_t b = labels.Pick(600);          // The odds rise with the number.
    const uint64_t c = labels.Pick(6'000) * 100;  // Both, in a few rows each.
    const double d = labels.Normal();
    const double logit = 2 * Labels::WeightOf(a) + 0.006 * (static_cast<double>(b) - 300) +
                         Labels::WeightOf(c) + 0.00001 * (static_cast<double>(c) - 3e5);
    return absl::StrCat(a, ",", b, ",", c, ",", d, ",", labels.Label(logit));
  }));
  CHECK(guessed.kind(0) == Kind::kId);
  CHECK(guessed.kind(1) == Kind::kDense);
  CHECK_FALSE(guessed[1].is_also_id);
  CHECK(guessed.kind(2) == Kind::kDense);
  CHECK(guessed[2].is_also_id);
  CHECK(guessed.kind(3) == Kind::kDense);
  CHECK_THAT(guessed[0].reason, Contains("600 integers; loss .") && Contains(" by value, .") &&
                                    Contains(" ranges, .") && Catch::EndsWith(" by number"));
}

TEST_CASE("Losses of a label of numbers are shares of its variance", "[guess]") {
  Labels labels;
  const Guessed guessed(Rows("a,b,c,label", 10'000, [&] {
    const uint64_t a = labels.Pick(500);
    const uint64_t b = labels.Pick(500);
    // Shares of the variance: 0.4 of the ids, 0.4 of the number, 0.2 of neither.
    const double label = 2 * Labels::WeightOf(a) +
                         2 * (static_cast<double>(b) - 250) / (500 / std::sqrt(12)) +
                         std::sqrt(2) * labels.Normal();
    return absl::StrCat(a, ",", b, ",", labels.Pick(1'000) * 3, ",", 1e6 + 1e5 * label);
  }));
  CHECK(guessed.kind(0) == Kind::kId);
  CHECK(guessed.kind(1) == Kind::kDense);
  CHECK_FALSE(guessed[1].is_also_id);
  const auto loss = [&](size_t column, const std::string& by) {
    const std::string& reason = guessed[column].reason;
    const size_t end = reason.find(by);
    REQUIRE(end != std::string::npos);
    return std::stod(reason.substr(reason.rfind(' ', end - 1)));
  };
  CHECK(loss(0, " by value") == Approx(0.6).margin(0.06));
  CHECK(loss(1, " by number") == Approx(0.6).margin(0.06));
}

TEST_CASE("Names are a hint where columns alone tell nothing", "[guess]") {
  Labels labels;
  const std::vector<std::string> names = {"user", "amount", "n_items", "C14", "x"};
  std::string header;
  for (const std::string& name : names) header += name + ",";
  const Guessed guessed(Rows(header + "label", 5'000, [&] {
    std::string cells;
    for (size_t i = 0; i < names.size(); ++i) absl::StrAppend(&cells, labels.Pick(400), ",");
    return absl::StrCat(cells, labels.Pick(2));
  }));
  CHECK(guessed.kind(0) == Kind::kId);
  CHECK(guessed.kind(1) == Kind::kDense);
  CHECK(guessed.kind(2) == Kind::kDense);
  CHECK(guessed.kind(3) == Kind::kId);
  // All integers from 0 to 399, and no order in the labels.
  CHECK(guessed.kind(4) == Kind::kId);
}

TEST_CASE("Names hint at ids, numbers and labels", "[guess]") {
  for (const char* name : {"user_id", "userId", "userid", "ID", "zip code", "item:token", "adid",
                           "cate_id", "movieId2", "store_code"}) {
    CAPTURE(name);
    CHECK(HintOf(name) == NameHint::kSurelyIds);
  }
  for (const char* name : {"user", "Movie", "site", "ad", "cate", "brand", "campaign", "C14",
                           "item2", "store_number", "device", "user_city", "feedid"}) {
    CAPTURE(name);
    CHECK(HintOf(name) == NameHint::kIds);
  }
  for (const char* name : {"age", "user_age", "item_price", "num_users", "n_items", "hour", "Year",
                           "avg_rate", "bid", "lead_time", "item_count"}) {
    CAPTURE(name);
    CHECK(HintOf(name) == NameHint::kNumber);
  }
  CHECK(HintOf("rating:float") == NameHint::kSurelyNumber);
  for (const char* name : {"x", "I1", "paid", "prepaid", "grid", "android", "level", "", "1"}) {
    CAPTURE(name);
    CHECK(HintOf(name) == NameHint::kNone);
  }
  for (const char* name : {"label", "Label:float", "TARGET", "y"}) {
    CAPTURE(name);
    CHECK(LabelNameOf(name) == LabelName::kLabel);
  }
  for (const char* name : {"click", "clk", "is_click", "isClick", "IsClicked", "isclick", "Clicked",
                           "click_flag", "click_label", "Clicked on Ad", "ad_click", "ctr_label"}) {
    CAPTURE(name);
    CHECK(LabelNameOf(name) == LabelName::kClick);
  }
  for (const char* name :
       {"like", "liked", "is_like", "buy", "bought it?", "purchase", "purchased", "conversion",
        "converted", "label2", "long_view", "add_to_cart", "is_fav", "bought_item", "label_cvr"}) {
    CAPTURE(name);
    CHECK(LabelNameOf(name) == LabelName::kAction);
  }
  CHECK(LabelNameOf("rating") == LabelName::kRating);
  CHECK(LabelNameOf("ctr") == LabelName::kRate);
  CHECK(LabelNameOf("cvr") == LabelName::kLaterRate);
  for (const char* name : {"click_time", "like_count", "user", "day", "y2", "gender", "item_rating",
                           "cart_add_order", "shared_item_price", "user_share_rate", ""}) {
    CAPTURE(name);
    CHECK_FALSE(LabelNameOf(name).has_value());
  }
}

TEST_CASE("The label is the column whose name fits best, wherever it stands", "[guess]") {
  Labels labels;
  const auto text = [&](const std::string& header) {
    return Rows(header, 50, [&] {
      return absl::StrCat(labels.Pick(2), ",", labels.Pick(9), ",", labels.Pick(2), ",",
                          labels.Pick(5) + 1, ",", labels.Pick(2));
    });
  };
  const auto label_of = [&](const std::string& header) {
    return Guessed(text(header)).guess.label().config.name;
  };
  CHECK(label_of("liked,item,premium,rating,gender") == "liked");
  CHECK(label_of("gender,item,is_buy,age,premium") == "is_buy");
  CHECK(label_of("conversion,item,clk,age,gender") == "clk");
  CHECK(label_of("click,item,label,age,gender") == "label");
  CHECK(label_of("gender,item,premium,rating,male") == "rating");
  CHECK(label_of("wanted,item,sex,age,male") == "wanted");
  CHECK(label_of("ctr,item,male,age,gender") == "ctr");
  CHECK(label_of("cvr,item,ctr,age,gender") == "ctr");

  const Guessed click(text("conversion,item,click,rating,gender"));
  CHECK(click.kind(0) == Kind::kSkip);
  CHECK_THAT(click[0].reason,
             Contains("looks like a second label; as a feature: --id conversion; as a task: see"));
  CHECK(click.kind(3) == Kind::kSkip);
  CHECK(click.kind(4) == Kind::kId);
  CHECK(Guessed(text("conversion,item,click,rating,gender"), {.ids = {"conversion"}}).kind(0) ==
        Kind::kId);

  CHECK_THAT(ErrorOf(text("like,item,follow,age,gender")),
             Contains("several columns have the name of a label: choose the label, by one of\n"
                      "  --label like  # 2 values, '0', '1'\n  --label follow  # 2 values"));
  CHECK_THAT(ErrorOf(text("male,item,premium,age,gender")), Contains("\n  --label male ") &&
                                                                Contains("\n  --label premium ") &&
                                                                Contains("\n  --label gender "));
}

TEST_CASE("A property of a user or item is no label, and ratings are candidates", "[guess]") {
  const auto text = [](const std::string& header, bool has_flag) {
    Labels labels;
    return Rows(header, 3'000, [&] {
      const size_t user = labels.Pick(60);
      const size_t item = labels.Pick(90);
      return absl::StrCat(user, ",", item, ",", 0.5 * static_cast<double>(labels.Pick(10) + 1), ",",
                          962'000'000 + labels.Pick(9'000'000), ",", user % 3 == 0 ? 1 : 0, ",",
                          has_flag ? absl::StrCat(labels.Pick(2)) : absl::StrCat("t", item));
    });
  };
  // Half of the users are new, whatever they do.
  const std::string many =
      "  --label Punkte  # 10 values, '0.5', '1', '1.5', '2', '2.5', ...\n"
      "  --label neu  # 2 values, '0', '1'; one for each 'userid'";
  CHECK(ErrorOf(text("userid,movieid,Punkte,timestamp,neu,title", false)) ==
        "a.csv: no column has the name of a label, such as click: choose the label, by one of\n" +
            many);
  CHECK(ErrorOf(text("userid,movieid,Punkte,timestamp,neu,opened", true)) ==
        "a.csv: no column has the name of a label, such as click: choose the label, by one of\n" +
            many + "\n  --label opened  # 2 values, '0', '1'");
  // The number is of another kind by its name.
  const auto label_of = [&](const std::string& header, bool has_flag) {
    return Guessed(text(header, has_flag)).guess.label().config.name;
  };
  CHECK(label_of("userid,movieid,price,timestamp,neu,opened", true) == "opened");
  for (const char* name :
       {"score", "stars", "Book-Rating", "user_rating", "ratingValue", "review/score", "overall"}) {
    CAPTURE(name);
    const std::string header = absl::StrCat("userid,movieid,", name, ",timestamp,neu,");
    CHECK(Guessed(text(header + "title", false)).guess.label().config.label_values ==
          ColumnConfig::LabelValues::kNumbers);
    // Either can be the label.
    CHECK_THAT(
        ErrorOf(text(header + "opened", true)),
        Contains(absl::StrCat("\n  --label ", name, "  #")) && Contains("\n  --label opened  #"));
    CHECK(label_of(header + "click", true) == "click");
  }
  for (const char* name : {"rating_count", "avg_rating", "score_time", "restart", "start"}) {
    CAPTURE(name);
    CHECK_FALSE(NamesScore(name));
  }
}

TEST_CASE("A column that predicts the label nearly alone is left out", "[guess]") {
  Labels labels;
  const auto text = [&](const std::string& header, double noise) {
    return Rows(header, 1'000, [&] {
      const int label = labels.Label(0);
      const double seconds = label + noise * labels.Normal();
      return absl::StrCat(labels.Pick(20), ",", seconds, ",", label == 1 ? "Check-Out" : "Canceled",
                          ",", label);
    });
  };
  const Guessed guessed(text("x,spent,status,label", 0.1));
  CHECK(guessed.kind(0) != Kind::kSkip);
  CHECK(guessed.kind(1) == Kind::kSkip);
  CHECK_THAT(guessed[1].reason, Contains("predicts the label nearly alone, loss 0.0") &&
                                    Catch::EndsWith("as a feature: --dense spent"));
  CHECK(guessed.kind(2) == Kind::kSkip);
  CHECK_THAT(guessed[2].reason, Catch::EndsWith("as a feature: --id status"));
  const Guessed asked(text("x,spent,status,label", 0.1), {.ids = {"status"}, .dense = {"spent"}});
  CHECK(asked.kind(1) == Kind::kDense);
  CHECK(asked.kind(2) == Kind::kId);
  CHECK(Guessed(text("x,spent,status,label", 1), {.skip = {"status"}}).kind(1) == Kind::kDense);
  // A cell is there only with label 1.
  const Guessed filled(Rows("x,reason,label", 2'000, [&] {
    const int label = labels.Label(-2);
    return absl::StrCat(labels.Pick(20), ",", label == 1 ? absl::StrCat("r", labels.Pick(9)) : "",
                        ",", label);
  }));
  CHECK(filled.kind(1) == Kind::kSkip);
  CHECK_THAT(filled[1].reason, Contains("predicts the label nearly alone, loss 0.0"));
  // Without another column there is nothing else to learn from.
  const Guessed alone(Rows("spent,label", 1'000, [&] {
    const int label = labels.Label(0);
    return absl::StrCat(label + 0.1 * labels.Normal(), ",", label);
  }));
  CHECK(alone.kind(0) == Kind::kDense);
}

TEST_CASE("Options name columns", "[guess]") {
  Labels labels;
  const std::string text = Rows("age,user:token,\"a,b\",w,t,note,label:float", 300, [&] {
    return absl::StrCat(labels.Pick(90), ",u", labels.Pick(9), ",", labels.Pick(90), ",",
                        labels.Pick(9) + 1, ",2024-01-", 10 + labels.Pick(9), ",n", labels.Pick(9),
                        ",", labels.Pick(2), ".0");
  });
  const Guessed guessed(
      text, {.weight = "w", .group = "user", .time = "t", .ids = {"age,a,b"}, .skip = {"note"}});
  CHECK(guessed.kind(0) == Kind::kId);
  CHECK(guessed.kind(1) == Kind::kId);
  CHECK(guessed[1].config.name == "user");
  CHECK(guessed[1].config.header_name == "user:token");
  CHECK(guessed.guess.group_feature == "user");
  CHECK(guessed.kind(3) == Kind::kWeight);
  CHECK(guessed.kind(4) == Kind::kSkip);
  CHECK(guessed.guess.time_column == 4);
  CHECK(guessed.kind(5) == Kind::kSkip);
  CHECK(guessed[6].config.name == "label");
  // A name with a comma is one name.
  CHECK(Guessed(text, {.ids = {"a,b"}}).kind(2) == Kind::kId);

  const std::string names = "the header has no such column; use one of age, user:token, a,b, w, t";
  CHECK_THAT(ErrorOf(text, {.ids = {"age,nome"}}), Contains("a.csv: --id nome: " + names));
  CHECK_THAT(ErrorOf(text, {.weight = "nome"}), Contains("--weight nome: " + names));
  CHECK_THAT(ErrorOf(text, {.group = "nome"}), Contains("--group nome: " + names));
  CHECK_THAT(ErrorOf(text, {.time = "nome"}), Contains("--time nome: " + names));
  CHECK_THAT(ErrorOf(text, {.label = "age,label"}),
             Contains("--label age,label: init writes a configuration for one label; name one"));
  CHECK_THAT(ErrorOf(text, {.skip = {"label"}}),
             Contains("--skip label: the column is the label; name it once"));
  CHECK_THAT(ErrorOf(text, {.ids = {"age"}, .skip = {"age"}}),
             Contains("--skip age: the column is that of --id; name it once"));
  CHECK_THAT(ErrorOf(text, {.dense = {"note"}}),
             Contains("--dense note: some cells are no numbers; name a column of numbers"));
}

TEST_CASE("Times are dates or numbers", "[guess]") {
  CHECK(ParseTimeCell("12.5") == 12.5);
  CHECK(ParseTimeCell("20240229") == 20240229);
  CHECK(ParseTimeCell("1970-01-02") == 86'400);
  // Reference: `date -ud '2024-02-29 23:59:58' +%s`.
  CHECK(ParseTimeCell("2024-02-29 23:59:58") == 1'709'251'198);
  CHECK(ParseTimeCell("2024/02/29 23:59") == 1'709'251'140);
  CHECK(ParseTimeCell("2024-02-29T23:59:58.5Z") == 1'709'251'198.5);
  CHECK(ParseTimeCell("2024-02-29T23:59:58+01:30") == 1'709'251'198 - 5'400);
  CHECK(ParseTimeCell("2024-02-29T23:59:58 -0130") == 1'709'251'198 + 5'400);
  CHECK(ParseTimeCell("2024-02-29T23:59:58+01") == 1'709'251'198 - 3'600);
  for (const char* text :
       {"", "x", "2024-02-30", "2024-2-29", "2024-02/29", "2024-02-29T", "2024-02-29 25:00",
        "2024-02-29 23:60", "2024-02-29 23:59 x", "2024-02-29T23:59:58+1"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseTimeCell(text).has_value());
  }
}

TEST_CASE("A split by time has the newest rows for the test", "[guess]") {
  // Each time is in three rows, in no order.
  size_t row = 0;
  const std::string text = Rows("t,x,label", 300, [&] {
    const size_t time = row++ * 37 % 100;
    return absl::StrCat("2024-01-01 ", 10 + time / 10, ":0", time % 10, ",", row % 7, ",", row % 2);
  });
  const Guessed guessed(text, {.time = "t"});
  const TemporaryFolder& folder = guessed.folder;
  const SplitFiles files{.train = folder.Path("train.csv"),
                         .validation = folder.Path("valid.csv"),
                         .test = folder.Path("test.csv")};
  const auto counts = SplitCsv(guessed.guess, folder.Path("a.csv"), files, 10);
  REQUIRE(counts.ok());
  CHECK(counts->train == 240);
  CHECK(counts->validation == 30);
  CHECK(counts->test == 30);
  std::vector<std::pair<std::string, std::string>> ranges;
  for (const std::string& file : {files.train, files.validation, files.test}) {
    std::string least = "~";
    std::string greatest;
    REQUIRE(ReadGuessed(guessed.guess, file, [&](std::string_view line, bool /*label*/) {
              const std::string time(line.substr(0, line.find(',')));
              least = std::min(least, time);
              greatest = std::max(greatest, time);
              return absl::OkStatus();
            }).ok());
    ranges.emplace_back(least, greatest);
  }
  CHECK(ranges[0].second < ranges[1].first);
  CHECK(ranges[1].second < ranges[2].first);

  const Guessed few(Rows("t,x,label", 90,
                         [&] {
                           ++row;
                           return absl::StrCat(row % 2, ",", row % 7, ",", row % 3 % 2);
                         }),
                    {.label = "label", .time = "t"});
  const auto refused = SplitCsv(few.guess, few.folder.Path("a.csv"), files, 10);
  CHECK_THAT(std::string(refused.status().message()),
             Contains("column 't' has too few different times"));
}

TEST_CASE("Columns are crossed if they tell more together, and only then", "[guess]") {
  // day and month tell the date, whose effect is random. shop and user add up. code names the
  // month. number: label of numbers.
  const auto guess_of = [](bool is_number, double of_date) {
    Labels labels;
    const std::string text = Rows("month,day,shop,user,code,few,label", 12'000, [&] {
      const uint64_t month = labels.Pick(12);
      const uint64_t day = labels.Pick(31);
      const uint64_t shop = labels.Pick(30);
      const uint64_t user = labels.Pick(300);
      const double sum = of_date * Labels::WeightOf(1'000 + month * 31 + day) +
                         Labels::WeightOf(shop) + Labels::WeightOf(500 + user);
      const std::string few = labels.Pick(20) == 0 ? absl::StrCat("f", labels.Pick(5)) : "";
      const std::string label =
          is_number ? absl::StrCat(sum + labels.Normal()) : absl::StrCat(labels.Label(sum));
      return absl::StrCat("m", month, ",d", day, ",s", shop, ",u", user, ",c", month * 7 % 12, ",",
                          few, ",", label);
    });
    return Guessed(text, "label").guess;
  };
  const bool is_number = GENERATE(false, true);
  const DataGuess none = guess_of(is_number, 0);
  CHECK(none.crosses.empty());
  CHECK_THAT(StarterConfig(none, {.train_rows = 9'000}), !Contains("columns: ["));

  // Once the date is known, the code adds nothing to the day.
  const DataGuess dates = guess_of(is_number, 1);
  REQUIRE(dates.crosses.size() == 1);
  CHECK(dates.crosses[0].first == 0);
  CHECK(dates.crosses[0].second == 1);
  CHECK(dates.crosses[0].distinct == 12 * 31);
  CHECK(dates.crosses[0].rows == 12'000);
  CHECK(dates.crosses[0].share > 0.02);
  const std::string yaml = StarterConfig(dates, {.train_rows = 9'000});
  CHECK_THAT(yaml, Contains("  - {name: month_x_day, columns: [month, day]}"));
  CHECK_THAT(yaml, Contains("      - month_x_day_weight\n"));
}

}  // namespace
}  // namespace simurgh
