#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "base/text.h"
#include "services/serving/predict_request.h"
#include "tests/unit/services/serving/format.h"

namespace simurgh {
namespace {

constexpr size_t kMaxRows = 4;

StatusOr<PredictRequest> Decode(const std::string& body, bool allows_bad_rows = false) {
  static const RowFormat format = SampleFormat();
  return DecodeV1(format, {.max_rows = kMaxRows, .allows_bad_rows = allows_bad_rows},
                  std::make_shared<RequestMemory>(body));
}

std::string Decoded(const std::string& body) {
  const auto request = Decode(body);
  if (!request.ok()) return std::string(request.status().message());
  return RequestText(request->rows, SampleFormat());
}

std::string ErrorOf(const std::string& body) {
  const auto request = Decode(body);
  if (request.ok()) return "no error";
  CHECK(request.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(request.status().message());
}

}  // namespace

TEST_CASE("v1: values are cells as they are written", "[serving]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"instances": [{"age": 7}]})", R"(1 rows; age: "7")"},
      {R"({"instances": [{"age": 7.0}]})", R"(1 rows; age: "7.0")"},
      {R"({"instances": [{"age": -7e0}]})", R"(1 rows; age: "-7e0")"},
      {R"({"instances": [{"age": -0}]})", R"(1 rows; age: "-0")"},
      {R"({"instances": [{"city": 12345678901234567890123}]})",
       R"(1 rows; city: "12345678901234567890123")"},
      {R"({"instances": [{"city": 0.10000000000000000001}]})",
       R"(1 rows; city: "0.10000000000000000001")"},
      {R"({"instances": [{"city": "07"}]})", R"(1 rows; city: "07")"},
      {R"({"instances": [{"city": ""}]})", R"(1 rows; city: "")"},
      {R"({"instances": [{"city": "a\"\u00e9\n"}]})", "1 rows; city: \"a\"\xc3\xa9\n\""},
      {R"({"instances": [{"city": "München"}]})", R"(1 rows; city: "München")"},
      {R"({"instances": [{"city": null}]})", R"(1 rows; city: -)"},
      {R"({"instances": [{}]})", "1 rows"},
      {R"({"instances": [{}, {"city": "b"}, {}]})", R"(3 rows; city: - "b" -)"},
      {R"({"instances": [{"seen": ["a", 7, "7.0"]}, {"seen": []}, {"seen": "a|b"}]})",
       R"(3 rows; seen: [a,7,7.0] - "a|b")"},
      {R"({"instances": [{"note": "ignored"}]})", "1 rows"},
      {R"({"instances": [{"city": "b"}, {"city": "c"}], "common": {"age": 3, "seen": ["x"]}})",
       R"(2 rows; age: "3"; city: "b" "c"; seen: [x])"},
      {R"({"common": {"age": 3}, "instances": [{"city": "b"}, {"city": "c"}]})",
       R"(2 rows; age: "3"; city: "b" "c")"},
      {R"({"signature_name": "serving_default", "instances": [{"age": 1}]})",
       R"(1 rows; age: "1")"},
      {"\xef\xbb\xbf{\"instances\": [{\"age\": 1}]}", R"(1 rows; age: "1")"},
      {R"({"inputs": {"age": [1, null, "3"], "city": [["a"], ["b"], [null]]}})",
       R"(3 rows; age: "1" - "3"; city: "a" "b" -)"},
      {R"({"inputs": {"age": 7, "seen": [["a", "b"], [], "c|d"], "note": [1, 2, 3]}})",
       R"(3 rows; age: "7"; seen: [a,b] - "c|d")"},
      {R"({"inputs": {"age": [7], "city": ["a", "b"]}})", R"(2 rows; age: "7"; city: "a" "b")"},
      {R"({"instances": [{"city": "b", "age": 1}, {"age": 2, "city": "c"}]})",
       R"(2 rows; age: "1" "2"; city: "b" "c")"},
  };
  for (const auto& [body, expected] : cases) {
    INFO(body);
    CHECK(Decoded(body) == expected);
  }
}

TEST_CASE("v1: texts without escapes stay in the body", "[serving]") {
  auto memory = std::make_shared<RequestMemory>(R"({"instances":[{"city":"plain","age":71.5}]})");
  const RowFormat format = SampleFormat();
  const auto request = DecodeV1(format, {.max_rows = kMaxRows}, memory);
  REQUIRE(request.ok());
  CHECK(memory->IsInBody(request->rows.columns[2][0].text));
  CHECK(memory->IsInBody(request->rows.columns[0][0].text));
}

TEST_CASE("v1: what is wrong is named with its remedy", "[serving]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the body is not JSON: incomplete JSON at byte 0; send one JSON object in UTF-8"},
      {"{", "the body is not JSON: incomplete JSON at byte 1; send one JSON object in UTF-8"},
      {R"({"instances": [{"age": 07}]})",
       "the body is not JSON: syntax error at byte 24 in column 'age', row 0; send one JSON object "
       "in UTF-8"},
      {R"({"instances": [{"age": NaN}]})",
       "the body is not JSON: NaN at byte 23 in column 'age', row 0; use null for a missing value, "
       "and double quotes around a text"},
      {R"({"instances": [{}, {"city": "a", "price": -Infinity}]})",
       "the body is not JSON: -Infinity at byte 43 in column 'price', row 1; use null for a "
       "missing "
       "value, and double quotes around a text"},
      {R"({"common": {"price": None}, "instances": [{}]})",
       "the body is not JSON: None at byte 21 in common, column 'price'; use null for a missing "
       "value, and double quotes around a text"},
      {R"({"inputs": {"price": [1, NaN]}})",
       "the body is not JSON: NaN at byte 25 in column 'price', row 1; use null for a missing "
       "value, and double quotes around a text"},
      {R"({"instances": [{"age": 1}]} x)",
       "the body is not JSON: more text after the object at byte 28; send one object"},
      {"[]", "the body is no JSON object; send {\"instances\": [{\"column\": value, ...}, ...]}"},
      {"7", "the body is no JSON object; send {\"instances\": [{\"column\": value, ...}, ...]}"},
      {"{}", "instances: is missing; send an array of objects, one for each row"},
      {R"({"instances": []})", "instances: has no rows; send one object for each row"},
      {R"({"instances": {}})", "instances: is an object; send an array of objects"},
      {R"({"instances": 7})", "instances: is a value; send an array of objects"},
      {R"({"instances": [7]})",
       "instances: row 0 is no object; send {\"column\": value, ...} for each row"},
      {R"({"instances": [{}, []]})",
       "instances: row 1 is no object; send {\"column\": value, ...} for each row"},
      {R"({"rows": [{"age": 1}]})", "'rows': unknown key; use instances and common, or inputs"},
      {R"({"inputs": {}})", "inputs: has no values; send an array for each column"},
      {R"({"inputs": {"age": []}})", "inputs: has no values; send an array for each column"},
      {R"({"inputs": [1]})", "inputs: is an array; send {\"column\": [value, ...], ...}"},
      {R"({"inputs": {"age": [1], "city": {"a": 1}}})",
       "inputs: column 'city': is an object; send an array"},
      {R"({"inputs": {"age": [1], "age": [2]}})",
       "inputs: column 'age': is given twice; remove one"},
      {R"({"inputs": {"age": [1, 2], "city": ["a", "b", "c"]}})",
       "inputs: column 'age': has 2 values, but another column has 3; send one value for all rows, "
       "or one for each"},
      {R"({"inputs": {"age": [[1, 2], [3, 4]]}})",
       "inputs: column 'age': has an array that is not one value; the column has one in a row\n"
       "inputs: column 'age': has an array that is not one value; the column has one in a row"},
      {R"({"inputs": {"age": [1, true]}})",
       "column 'age', row 1: true is a boolean; send the text or the number that the training "
       "data has for it"},
      {R"({"inputs": {"age": [1]}, "instances": [{}]})",
       "inputs: is given besides instances or common; send one of them"},
      {R"({"instances": [{}], "common": []})", "common: is an array; send an object"},
      {R"({"instances": [{}], "instances": [{}]})", "instances: is given twice"},
      {R"({"instances": [{"agee": 1}]})",
       "column 'agee': unknown column; the nearest column is 'age'; correct or remove it, or set "
       "serving.unknown_columns: ignore"},
      {R"({"instances": [{"sold": 1}]})",
       "column 'sold': is a label, which the model predicts; remove it, or set "
       "serving.unknown_columns: ignore"},
      {R"({"instances": [{}, {"age": true}]})",
       "column 'age', row 1: true is a boolean; send the text or the number that the training "
       "data has for it"},
      {R"({"instances": [{"age": {"x": [1]}}]})",
       "column 'age', row 0: is an object; send a text, a number or null"},
      {R"({"instances": [{"city": ["a"]}]})",
       "column 'city', row 0: is an array, but the column has one value in a row; send a text or "
       "a number"},
      {R"({"instances": [{"seen": ["a", null]}]})",
       "column 'seen', row 0: has a value that is no id; send texts or numbers in the array"},
      {R"({"instances": [{"seen": ["a", ["b"]]}]})",
       "column 'seen', row 0: has a value that is no id; send texts or numbers in the array"},
      {R"({"instances": [{"age": 1, "age": 2}]})",
       "column 'age', row 0: is given twice; remove one"},
      {R"({"instances": [{"age": 1}], "common": {"age": 2}})",
       "column 'age', row 0: is in common and in an instance; remove one"},
      {R"({"common": {"age": 2}, "instances": [{"age": 1}]})",
       "column 'age', row 0: is in common and in an instance; remove one"},
      {R"({"common": {"age": false}, "instances": [{}]})",
       "common: column 'age': false is a boolean; send the text or the number that the training "
       "data has for it"},
      {R"({"instances": [{"age": true, "city": false}]})",
       "column 'age', row 0: true is a boolean; send the text or the number that the training "
       "data has for it\ncolumn 'city', row 0: false is a boolean; send the text or the number "
       "that the training data has for it"},
  };
  for (const auto& [body, expected] : cases) {
    INFO(body);
    CHECK(ErrorOf(body) == expected);
  }
}

TEST_CASE("v1: the first ten problems are named", "[serving]") {
  std::string body = R"({"instances": [{)";
  for (int i = 0; i < 50; ++i) body += "\"x" + std::to_string(i) + "\": 1,";
  body.back() = '}';
  body += "]}";
  const std::string error = ErrorOf(body);
  CHECK_THAT(error, Catch::Contains("'x0'") && Catch::Contains("'x9'") &&
                        !Catch::Contains("'x10'") && Catch::EndsWith("\nand 1 more"));
}

TEST_CASE("v1: rows of JSON files are read as training reads them", "[serving]") {
  RowFormat format = SampleFormat();
  format.is_json = true;
  format.columns[2].header_name = "user city";
  const auto decode = [&](const std::string& body) {
    const auto request =
        DecodeV1(format, {.ignores_unknown = true}, std::make_shared<RequestMemory>(body));
    return request.ok() ? RequestText(request->rows, format)
                        : std::string(request.status().message());
  };
  CHECK(decode(R"({"instances": [{"user city": true, "age": true, "sold": 1, "x": {"y": [1]},)"
               R"( "z": [[2]], "note": {}}, {"city": "b", "age": false}]})") ==
        R"(2 rows; age: "1" "0"; city: "true" "b")");
  CHECK(decode(R"({"inputs": {"user city": ["a"], "sold": [1, 0], "x": {"y": 1}}})") ==
        R"(1 rows; city: "a")");
  CHECK(decode(R"({"instances": [{"city": "b", "user city": "c"}]})") ==
        "column 'city', row 0: is given twice; remove one");
  CHECK(decode(R"({"instances": [{"cit": "b"}]})") ==
        "no column is one of the model, such as 'cit'; the nearest column is 'city'");
}

TEST_CASE("v1: too many rows are refused at the first of them", "[serving]") {
  CHECK(absl::IsOutOfRange(
      Decode(R"({"inputs": {"age": [1, 2, 3, 4, 5, is not looked at)").status()));
  const auto request = Decode(R"({"instances": [{}, {}, {}, {}, {}, is not looked at)");
  CHECK(request.status().code() == absl::StatusCode::kOutOfRange);
  CHECK(request.status().message() ==
        "the request has 5 rows or more; send at most 4, see serving.max_rows");
  CHECK(Decode(R"({"instances": [{}, {}, {}, {}]})").ok());
}

TEST_CASE("v1: bad rows can be allowed", "[serving]") {
  const auto request =
      Decode(R"({"instances": [{"age": 1}, {"age": true, "city": "a"}, {"age": 3}]})", true);
  REQUIRE(request.ok());
  CHECK(request->bad.rows == std::set<size_t>{1});
  CHECK(RequestText(request->rows, SampleFormat()) == R"(3 rows; age: "1" - "3"; city: - "a" -)");
  CHECK_FALSE(Decode(R"({"instances": [{"none": 1}]})", true).ok());
  const auto columns =
      Decode(R"({"inputs": {"age": [1, true, 3], "city": ["a", "b", "c"]}})", true);
  REQUIRE(columns.ok());
  CHECK(columns->bad.rows == std::set<size_t>{1});
  CHECK(RequestText(columns->rows, SampleFormat()) ==
        R"(3 rows; age: "1" - "3"; city: "a" "b" "c")");
  const auto shared = Decode(R"({"inputs": {"age": true, "city": ["a", "b"]}})", true);
  REQUIRE(shared.ok());
  CHECK(shared->bad.rows == std::set<size_t>{0, 1});
}

TEST_CASE("v1: all rows are read if more are bad than are named", "[serving]") {
  const RowFormat format = SampleFormat();
  std::string body = R"({"instances": [)";
  for (int row = 0; row < 20; ++row) body += row < 12 ? R"({"age": true},)" : R"({"age": 1},)";
  body.back() = ']';
  const auto decode = [&](const std::string& text) {
    return DecodeV1(format, {.max_rows = 20, .allows_bad_rows = true},
                    std::make_shared<RequestMemory>(text));
  };
  CHECK(absl::IsInvalidArgument(decode(body).status()));  // It ends too early.
  const auto request = decode(body + "}");
  REQUIRE(request.ok());
  CHECK(request->bad.rows.size() == 12);
  CHECK(request->rows.rows == 20);
}

TEST_CASE("v1: too many ids in arrays are refused, those that are not used are not kept",
          "[serving]") {
  const RowFormat format = SampleFormat();
  const auto decode = [&](const std::string& body) {
    return DecodeV1(format, {.max_list_ids = 3}, std::make_shared<RequestMemory>(body));
  };
  const auto many = decode(R"({"instances": [{"seen": [1, 2]}, {"seen": [1, 2, is not looked at)");
  CHECK(many.status().code() == absl::StatusCode::kOutOfRange);
  CHECK(many.status().message() ==
        "the arrays of the request have more than 3 ids; send fewer rows, or raise "
        "serving.max_body_bytes");
  const auto most = decode(R"({"instances": [{"seen": [1, 2]}, {"seen": [1]}]})");
  REQUIRE(most.ok());
  CHECK(most->cell_bytes == 2 * sizeof(Cell) + 3 * sizeof(std::string_view));
  // An unknown column, and one with a single value.
  CHECK(absl::IsInvalidArgument(decode(R"({"instances": [{"none": [1, 2, 3, 4]}]})").status()));
  CHECK(absl::IsInvalidArgument(decode(R"({"instances": [{"city": [1, 2, 3, 4]}]})").status()));
}

TEST_CASE("v1: bodies that are deep or not UTF-8 are refused", "[serving]") {
  const std::string deep =
      R"({"instances": [{"age": )" + std::string(1000, '[') + std::string(1000, ']') + "}]}";
  CHECK_THAT(ErrorOf(deep), Catch::Contains("too deep"));
  CHECK_THAT(ErrorOf("{\"instances\": [{\"city\": \"\xff\"}]}"), Catch::Contains("not JSON"));
}

TEST_CASE("v1: responses have a number for each row, or a list for each", "[serving]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const ModelName model{"m", 120};
  CHECK(EncodeV1(SampleFormat(), model, false, {.probabilities = {0.1F, nan, 1}}).bytes ==
        R"({"predictions":[0.1,null,1],"model_version":"120"})");
  CHECK(EncodeV1(SampleFormat({"a", "b"}), model, false, {.probabilities = {0.25F, 0.5F, nan, nan}})
            .bytes == R"({"predictions":[[0.25,0.5],[null,null]],"model_version":"120"})");
  CHECK(EncodeV1(SampleFormat(), model, true, {.probabilities = {0.5F, nan}}).bytes ==
        R"({"outputs":[0.5,null],"model_version":"120"})");
  CHECK(EncodeV1(SampleFormat({"a", "b"}), model, true, {.probabilities = {0.25F, 0.5F, 1, 0}})
            .bytes == R"({"outputs":{"a":[0.25,1],"b":[0.5,0]},"model_version":"120"})");
}

TEST_CASE("numbers of responses give the same float", "[serving]") {
  for (const float number : {0.1F, 1.0F / 3, 1e-30F, 0.99999994F, 5.9604645e-8F}) {
    std::string text;
    AppendJsonNumber(number, text);
    CHECK(std::stof(text) == number);
  }
}

TEST_CASE("texts of responses are JSON whatever their bytes", "[serving]") {
  const auto quoted = [](std::string_view text) {
    std::string out;
    AppendJsonText(text, out);
    return out;
  };
  CHECK(quoted("a\"b\\c\n\x01") == R"("a\"b\\c\n\u0001")");
  CHECK(quoted("M\xc3\xbc") == "\"M\xc3\xbc\"");
  CHECK(quoted("\xff\xc3") == R"("\u00ff\u00c3")");
}

}  // namespace simurgh
