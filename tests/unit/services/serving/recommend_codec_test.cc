#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <catch2/catch.hpp>

#include "services/serving/recommend_request.h"
#include "tests/unit/services/serving/format.h"

namespace simurgh {
namespace {

StatusOr<RecommendRequest> DecodeText(const std::string& body) {
  static const RowFormat format = SampleFormat();
  return DecodeRecommend(format, {.max_rows = 4, .max_list_ids = 5},
                         std::make_shared<RequestMemory>(body));
}

// "k=10 exclude=a,b color=red|blue candidates=20 rank=false: ", then the rows.
std::string RecommendText(const std::string& body) {
  const StatusOr<RecommendRequest> request = DecodeText(body);
  if (!request.ok()) return std::string(request.status().message());
  std::string text = absl::StrCat("k=", request->k);
  if (!request->exclude.empty()) {
    absl::StrAppend(&text, " exclude=", absl::StrJoin(request->exclude, ","));
  }
  for (const CellFilter& filter : request->filters) {
    absl::StrAppend(&text, " ", filter.column, "=", absl::StrJoin(filter.values, "|"));
  }
  if (request->candidates) absl::StrAppend(&text, " candidates=", *request->candidates);
  if (request->rank) absl::StrAppend(&text, " rank=", *request->rank ? "true" : "false");
  return absl::StrCat(text, ": ", RequestText(request->users.rows, SampleFormat()));
}

TEST_CASE("recommend: keys besides the rows", "[serving]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"instances": [{"city": "a"}]})", R"(k=10: 1 rows; city: "a")"},
      {R"({"k": 100, "instances": [{"city": "a"}, {}]})", R"(k=100: 2 rows; city: "a" -)"},
      {R"({"instances": [{}], "exclude": ["x", 7, 7.0, "\u00e9"]})",
       "k=10 exclude=x,7,7.0,\xc3\xa9: 1 rows"},
      {R"({"exclude": [], "filter": {}, "instances": [{}]})", "k=10: 1 rows"},
      {R"({"filter": {"color": "red", "size": [1, "2"], "none": []}, "instances": [{}]})",
       "k=10 color=red size=1|2 none=: 1 rows"},
      {R"({"rank": false, "candidates": 20, "inputs": {"city": ["a", "b"]}})",
       R"(k=10 candidates=20 rank=false: 2 rows; city: "a" "b")"},
      {R"({"rank": true, "common": {"age": 3}, "instances": [{}]})",
       R"(k=10 rank=true: 1 rows; age: "3")"},
  };
  for (const auto& [body, expected] : cases) {
    INFO(body);
    CHECK(RecommendText(body) == expected);
  }
}

TEST_CASE("recommend: problems of a request", "[serving]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"k": 0, "instances": [{}]})", "k: is no whole number from 1 to 10000"},
      {R"({"k": 10001, "instances": [{}]})", "k: is no whole number from 1 to 10000"},
      {R"({"k": 1.5, "instances": [{}]})", "k: is no whole number from 1 to 10000"},
      {R"({"k": "5", "instances": [{}]})", "k: is no whole number from 1 to 10000"},
      {R"({"k": [5], "instances": [{}]})", "k: is no whole number from 1 to 10000"},
      {R"({"k": {}, "instances": [{}]})", "k: is no whole number from 1 to 10000"},
      {R"({"candidates": null, "instances": [{}]})",
       "candidates: is no whole number from 1 to 10000"},
      {R"({"rank": 1, "instances": [{}]})", "rank: is neither true nor false"},
      {R"({"exclude": "x", "instances": [{}]})", "exclude: is no array of ids"},
      {R"({"exclude": [["x"]], "instances": [{}]})", "exclude: is no array of ids"},
      {R"({"exclude": [true], "instances": [{}]})", "exclude: is no array of ids"},
      {R"({"exclude": {"a": 1}, "instances": [{}]})", "exclude: is no array of ids"},
      {R"({"filter": ["a"], "instances": [{}]})", "filter: is no object of columns"},
      {R"({"filter": "a", "instances": [{}]})", "filter: is no object of columns"},
      {R"({"filter": {"a": {"b": 1}}, "instances": [{}]})", "filter: is no object of columns"},
      {R"({"filter": {"a": null}, "instances": [{}]})", "filter: is no object of columns"},
      {R"({"filter": {"a": [[1]]}, "instances": [{}]})", "filter: is no object of columns"},
      {R"({"k": 1, "k": 2, "instances": [{}]})", "k: is given twice"},
      {R"({"n": 1, "instances": [{}]})",
       "'n': unknown key; use instances and common, or inputs; or k, exclude, filter, candidates "
       "or rank"},
      {R"({"k": 1})", "instances: is missing"},
      {R"({"k": 1, "instances": []})", "instances: has no rows"},
      {R"({"k": 0, "instances": [{"town": 1}]})", "column 'town': unknown column"},
      {R"({"instances": [{"age": true}]})", "column 'age', row 0: true is a boolean"},
      {R"({"k": 1)", "not JSON"},
      {R"([])", "the body is no JSON object"},
      {"", "not JSON"},
  };
  for (const auto& [body, expected] : cases) {
    INFO(body);
    const auto request = DecodeText(body);
    REQUIRE(absl::IsInvalidArgument(request.status()));
    CHECK_THAT(std::string(request.status().message()), Catch::Contains(expected));
  }
  CHECK(absl::IsOutOfRange(
      DecodeText(R"({"exclude": [1,2,3], "filter": {"a": [4,5,6]}, "instances": [{}]})").status()));
  CHECK(absl::IsOutOfRange(DecodeText(R"({"instances": [{},{},{},{},{}]})").status()));
}

TEST_CASE("recommend: responses", "[serving]") {
  Recommendations found{.users = {{.ids = {"a\"", "7"}, .scores = {0.5F, -1.25F}}, {}},
                        .step = 120};
  CHECK(EncodeRecommend(found).bytes ==
        R"({"recommendations":[{"ids":["a\"","7"],"scores":[0.5,-1.25]},{"ids":[],"scores":[]}],)"
        R"("model_version":"120"})");
  found.users.clear();
  found.rank_step = 7;
  CHECK(EncodeRecommend(found).bytes ==
        R"({"recommendations":[],"model_version":"120","rank_model_version":"7"})");
}

}  // namespace
}  // namespace simurgh
