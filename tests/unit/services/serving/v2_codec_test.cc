#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include <catch2/catch.hpp>

#include "services/serving/predict_request.h"
#include "tests/unit/services/serving/format.h"

namespace simurgh {
namespace {

constexpr size_t kMaxRows = 4;

StatusOr<PredictRequest> Decode(const std::string& body, std::optional<size_t> json_bytes = {},
                                bool allows_bad_rows = false,
                                const RowFormat& format = SampleFormat()) {
  return DecodeV2(format, {.max_rows = kMaxRows, .allows_bad_rows = allows_bad_rows}, json_bytes,
                  std::make_shared<RequestMemory>(body));
}

// A request with all columns, of which `input` replaces that of its name.
std::string Body(const std::string& name, const std::string& input, const std::string& more = "") {
  std::string body = "{\"inputs\": [";
  for (const auto& [column, type, data] : {std::tuple("age", "FP64", "1"),
                                           {"price", "FP32", "2"},
                                           {"city", "BYTES", "\"c\""},
                                           {"seen", "BYTES", "\"s\""}}) {
    if (body.back() != '[') body += ",";
    body += column == name
                ? input
                : absl::StrCat("{\"name\":\"", column, "\",\"shape\":[1],\"datatype\":\"", type,
                               "\",\"data\":[", data, "]}");
  }
  return absl::StrCat(body, "]", more, "}");
}

// The cells of column `name` in a request with this input.
std::string Cells(const std::string& name, const std::string& rest) {
  const std::string input = absl::StrCat("{\"name\":\"", name, "\",", rest, "}");
  const auto request = Decode(Body(name, input));
  if (!request.ok()) return std::string(request.status().message());
  std::string text;
  const RowFormat format = SampleFormat();
  for (size_t i = 0; i < format.columns.size(); ++i) {
    if (format.columns[i].name != name) continue;
    for (const Cell& cell : request->rows.columns[i]) text += CellText(cell) + " ";
  }
  return text;
}

std::string Bytes(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += text;
  }
  return bytes;
}

template <typename T>
std::string Numbers(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

// A format with one column.
RowFormat OneColumn(bool is_dense) {
  return {.columns = {{.name = "x", .is_dense = is_dense, .is_read = true}}, .labels = {"y"}};
}

// The request of a binary tensor for that column.
StatusOr<PredictRequest> DecodeBinary(bool is_dense, const std::string& shape,
                                      const std::string& datatype, const std::string& bytes,
                                      std::optional<size_t> size = {}, bool allows = false) {
  const std::string json =
      absl::StrCat(R"({"inputs":[{"name":"x","shape":)", shape, R"(,"datatype":")", datatype,
                   R"(","parameters":{"binary_data_size":)", size.value_or(bytes.size()), "}}]}");
  return Decode(json + bytes, json.size(), allows, OneColumn(is_dense));
}

std::string DecodedBinary(bool is_dense, const std::string& shape, const std::string& datatype,
                          const std::string& bytes, std::optional<size_t> size = {}) {
  const auto request = DecodeBinary(is_dense, shape, datatype, bytes, size);
  if (!request.ok()) return std::string(request.status().message());
  return RequestText(request->rows, OneColumn(is_dense));
}

}  // namespace

TEST_CASE("v2: tensors in JSON become cells", "[serving]") {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"age", R"("shape":[2],"datatype":"FP64","data":[1.5,2])", "#1.5 #2. "},
      {"age", R"("shape":[2,1],"datatype":"FP64","data":[[1.5],[2]])", "#1.5 #2. "},
      {"age", R"("data":[1.5,null],"datatype":"FP32","shape":[2,1])", "#1.5 - "},
      {"age", R"("shape":[2],"datatype":"BYTES","data":["1.50",""])", R"("1.50" "" )"},
      {"age", R"("shape":[1],"datatype":"INT64","data":[3])", R"("3" )"},
      {"city", R"("shape":[2],"datatype":"INT64","data":[-9223372036854775808,-0])",
       R"("-9223372036854775808" "0" )"},
      {"city", R"("shape":[2],"datatype":"BYTES","data":["a\u0062",null])", R"("ab" - )"},
      {"seen", R"("shape":[1],"datatype":"BYTES","data":["a|b"])", R"("a|b" )"},
  };
  for (const auto& [name, rest, expected] : cases) {
    INFO(rest);
    CHECK(Cells(name, rest) == expected);
  }
}

TEST_CASE("v2: FP32 numbers are rounded as in binary", "[serving]") {
  const auto request =
      Decode(R"({"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[0.1]}]})", {}, false,
             OneColumn(true));
  REQUIRE(request.ok());
  CHECK(request->rows.columns[0][0].number == static_cast<double>(0.1F));
}

TEST_CASE("v2: a tensor of one element holds for all rows", "[serving]") {
  const auto request = Decode(
      Body("city", R"({"name":"city","shape":[3],"datatype":"BYTES","data":["a","b","c"]})"));
  REQUIRE(request.ok());
  CHECK(RequestText(request->rows, SampleFormat()) ==
        R"(3 rows; age: #1.; price: #2.; city: "a" "b" "c"; seen: "s")");
}

TEST_CASE("v2: binary tensors become cells", "[serving]") {
  CHECK(DecodedBinary(true, "[2]", "FP64", Numbers<double>({1.5, -2})) == "2 rows; x: #1.5 #-2.");
  CHECK(DecodedBinary(true, "[2,1]", "FP32", Numbers<float>({1.5, -2})) == "2 rows; x: #1.5 #-2.");
  CHECK(DecodedBinary(false, "[2]", "INT64", Numbers<int64_t>({7, INT64_MIN})) ==
        R"(2 rows; x: "7" "-9223372036854775808")");
  CHECK(DecodedBinary(false, "[3]", "BYTES", Bytes({"a", "", "\xff"})) ==
        "3 rows; x: \"a\" \"\" \"\xff\"");
}

TEST_CASE("v2: binary texts are read in place, of several tensors in their order", "[serving]") {
  const std::string json = absl::StrReplaceAll(
      R"({"inputs":[{"name":"city","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":10}},
      {"name":"age","shape":[1],"datatype":"FP64","data":[1]},
      {"name":"seen","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":7}},
      {"name":"price","shape":[1],"datatype":"FP32","parameters":{"binary_data_size":4}}]})",
      {{"\n", ""}});
  auto memory = std::make_shared<RequestMemory>(json + Bytes({"a", "b"}) + Bytes({"s|t"}) +
                                                Numbers<float>({2}));
  const RowFormat format = SampleFormat();
  const auto request = DecodeV2(format, {.max_rows = kMaxRows}, json.size(), memory);
  INFO(request.status());
  REQUIRE(request.ok());
  CHECK(RequestText(request->rows, format) ==
        R"(2 rows; age: #1.; price: #2.; city: "a" "b"; seen: "s|t")");
  CHECK(memory->IsInBody(request->rows.columns[2][1].text));
}

TEST_CASE("v2: id, timeout and outputs are read", "[serving]") {
  const RowFormat format = SampleFormat({"sold", "liked"});
  const auto request =
      Decode(Body("", "", R"(,"id":"q7","parameters":{"timeout":1500,"sequence_id":3},
        "outputs":[{"name":"liked","parameters":{"binary_data":true}},{"name":"sold"}])"),
             {}, false, format);
  INFO(request.status());
  REQUIRE(request.ok());
  CHECK(request->id == "q7");
  CHECK(request->timeout == std::chrono::microseconds(1500));
  REQUIRE(request->outputs.size() == 2);
  CHECK(request->outputs[0].label == 1);
  CHECK(request->outputs[0].is_binary);
  CHECK_FALSE(request->outputs[1].is_binary);

  const auto all =
      Decode(Body("", "", R"(,"parameters":{"binary_data_output":true})"), {}, false, format);
  REQUIRE(all.ok());
  REQUIRE(all->outputs.size() == 2);
  CHECK(all->outputs[1].is_binary);
  CHECK_FALSE(all->timeout);

  const auto none = Decode(Body("", "", R"(,"outputs":[])"), {}, false, format);
  REQUIRE(none.ok());
  CHECK(none->outputs.size() == 2);
}

TEST_CASE("v2: what is wrong with inputs is named with its remedy", "[serving]") {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      {"age", R"("shape":[1],"datatype":"FP16","data":[1])",
       "input 'age': datatype 'FP16' is not supported; use FP64, FP32, INT64 or BYTES"},
      {"city", R"("shape":[1],"datatype":"FP64","data":[1])",
       "input 'city': datatype FP64 is only for dense columns; ids need BYTES, or INT64 if the "
       "training data has whole numbers"},
      {"age", R"("shape":[1,2],"datatype":"FP64","data":[1,2])",
       "input 'age': shape [1,2] is not supported; use [N] or [N,1] for N rows, [1] or [1,1] for a "
       "value that all rows share"},
      {"age", R"("shape":[0],"datatype":"FP64","data":[])",
       "input 'age': shape [0] is not supported; use [N] or [N,1] for N rows, [1] or [1,1] for a "
       "value that all rows share"},
      {"age", R"("datatype":"FP64","data":[1])",
       "input 'age': shape [] is not supported; use [N] or [N,1] for N rows, [1] or [1,1] for a "
       "value that all rows share"},
      {"age", R"("shape":[2],"datatype":"FP64","data":[1])",
       "input 'age': has 1 elements, but shape [2]; correct one of them"},
      {"age", R"("shape":[1],"datatype":"FP64")",
       "input 'age': has no data; send `data`, or a binary tensor with binary_data_size"},
      {"age", R"("shape":[-1],"datatype":"FP64","data":[1])",
       "shape: '-1' is not a whole number from 0\ninput 'age': shape [0] is not supported; use [N] "
       "or [N,1] for N rows, [1] or [1,1] for a value that all rows share"},
      {"age", R"("shape":[1],"datatype":"FP64","data":["x"])",
       "input 'age', row 0: 'x' is a text, but the datatype is one of numbers; send a number, or "
       "BYTES"},
      {"age", R"("shape":[1],"datatype":"FP64","data":[1e999])",
       "input 'age', row 0: an infinity is not a value; send null, or an empty text of BYTES, for "
       "a missing value"},
      {"age", R"("shape":[1],"datatype":"FP64","data":[true])",
       "input 'age', row 0: true is a boolean; send the text that the training data has for it"},
      {"age", R"("shape":[1],"datatype":"FP64","data":[{}])",
       "input 'age': data has an object in it; send texts or numbers\ninput 'age': has 0 elements, "
       "but shape [1]; correct one of them"},
      {"city", R"("shape":[1],"datatype":"INT64","data":[1.0])",
       "input 'city', row 0: '1.0' is not an INT64; send a whole number, or BYTES"},
      {"city", R"("shape":[1],"datatype":"INT64","data":[9223372036854775808])",
       "input 'city', row 0: '9223372036854775808' is not an INT64; send a whole number, or BYTES"},
      {"city", R"("shape":[2],"datatype":"BYTES","data":["a",7])",
       "input 'city', row 1: 7 is a number, but the datatype is BYTES; send a text, or another "
       "datatype"},
  };
  for (const auto& [name, rest, expected] : cases) {
    INFO(rest);
    CHECK(Cells(name, rest) == expected);
  }
}

TEST_CASE("v2: what is wrong with requests is named with its remedy", "[serving]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "the body is no JSON object; send {\"inputs\": [...]}"},
      {"\"x\"", "the body is no JSON object; send {\"inputs\": [...]}"},
      {"{}", "inputs: is missing; send a tensor for each column"},
      {R"({"inputs": 7})", "inputs: is a value; see the protocol"},
      {R"({"inputs": [{"name": "age", "data": [1, NaN]}]})",
       "the body is not JSON: NaN at byte 40 in input 'age', row 1; use null for a missing value, "
       "and double quotes around a text"},
      {R"({"inputs": {}})", "inputs: is an object, not an array"},
      {R"({"inputs": [7]})",
       "inputs: has a value that is no object; send an object for each tensor"},
      {R"({"inputs": [{}]})", "inputs: an input has no name; name it like a column"},
      {R"({"inputs": [{"name": 7}]})",
       "name: is not a text\ninput '': unknown column; use one of age, price, city, seen, note; "
       "correct or remove it, or set serving.unknown_columns: ignore"},
      {Body("age", R"({"name":"sold","shape":[1],"datatype":"FP32","data":[1]})"),
       "input 'sold': is a label, which the model predicts; remove it, or set "
       "serving.unknown_columns: ignore"},
      {Body("age", R"({"name":"note","shape":[1],"datatype":"BYTES","data":["x"]})"),
       "input 'age': is missing; send it, with empty texts for missing values"},
      {Body("age", R"({"name":"city","shape":[1],"datatype":"BYTES","data":["x"]})"),
       "input 'city': is given twice; remove one"},
      {Body("", "", R"(,"outputs":[{"name":"sould"}])"),
       "output 'sould': unknown label; use one of sold"},
      {Body("", "", R"(,"outputs":[{"name":"sold"},{"name":"sold"}])"),
       "output 'sold': is given twice; remove one"},
      {Body("", "", R"(,"outputs":[{"name":"sold","parameters":{"classification":2}}])"),
       "outputs: classification is not supported; read the probabilities"},
      {Body("", "", R"(,"outputs":[7])"),
       "outputs: has a value that is no object; send {\"name\": ...} for each"},
      {Body("", "", R"(,"parameters":{"timeout":"1s"})"),
       "timeout: '1s' is not a whole number from 0"},
  };
  for (const auto& [body, expected] : cases) {
    INFO(body);
    const auto request = Decode(body);
    CHECK(request.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(request.status().message() == expected);
  }
  const auto uneven =
      Decode(R"({"inputs":[{"name":"age","shape":[2],"datatype":"FP64","data":[1,2]},
      {"name":"price","shape":[3],"datatype":"FP64","data":[1,2,3]},
      {"name":"city","shape":[1],"datatype":"INT64","data":[1]},
      {"name":"seen","shape":[1],"datatype":"INT64","data":[1]}]})");
  CHECK(uneven.status().message() ==
        "input 'age': has 2 rows, but another input has 3; send one row for all, or as many");
}

TEST_CASE("v2: what is wrong with binary tensors is named with its remedy", "[serving]") {
  CHECK(DecodedBinary(true, "[2]", "FP64", Numbers<double>({1})) ==
        "input 'x': binary_data_size is 8, but shape [2] of FP64 needs 16; correct one of them");
  CHECK(DecodedBinary(true, "[1]", "FP64", Numbers<double>({1}), 9) ==
        "input 'x': binary_data_size is 9, but fewer bytes follow; correct it");
  CHECK(DecodedBinary(true, "[1]", "FP32", Numbers<float>({1, 2}), 4) ==
        "binary tensors: 4 bytes follow the last one; correct binary_data_size of the inputs");
  CHECK(DecodedBinary(true, "[2]", "FP32",
                      Numbers<float>({1, std::numeric_limits<float>::quiet_NaN()})) ==
        "input 'x', row 1: NaN is not a value; send null, or an empty text of BYTES, for a missing "
        "value");
  CHECK(DecodedBinary(true, "[1]", "FP64",
                      Numbers<double>({-std::numeric_limits<double>::infinity()})) ==
        "input 'x', row 0: an infinity is not a value; send null, or an empty text of BYTES, for a "
        "missing value");
  CHECK(DecodedBinary(false, "[2]", "BYTES", Bytes({"a"})) ==
        "input 'x': row 1 exceeds binary_data_size; an element is its length in 4 bytes, "
        "little-endian, and its bytes");
  CHECK(DecodedBinary(false, "[1]", "BYTES", "\xff\xff\xff\xff") ==
        "input 'x': row 0 exceeds binary_data_size; an element is its length in 4 bytes, "
        "little-endian, and its bytes");
  CHECK(DecodedBinary(false, "[1]", "BYTES", Bytes({"a", "b"})) ==
        "input 'x': has 5 bytes after its 1 elements; correct the shape or binary_data_size");
  const std::string both = Body(
      "age",
      R"({"name":"age","shape":[1],"datatype":"FP64","data":[1],"parameters":{"binary_data_size":8}})");
  CHECK(Decode(both + Numbers<double>({1}), both.size()).status().message() ==
        "input 'age': has data and binary_data_size; send one of them");
  const auto header = Decode("{}", 3);
  CHECK(header.status().message() ==
        "Inference-Header-Content-Length is 3, but the body has 2 bytes; correct the header");
}

TEST_CASE("v2: too many rows are refused before memory is taken", "[serving]") {
  const char* const message =
      "the request has 1152921504606846976 rows or more; send at most 4, "
      "see serving.max_rows";
  const auto binary = DecodeBinary(true, "[1152921504606846976]", "FP64", "");
  CHECK(binary.status().code() == absl::StatusCode::kOutOfRange);
  CHECK(binary.status().message() == message);
  const auto json = Decode(
      R"({"inputs":[{"name":"age","shape":[5],"datatype":"FP64","data":[1,2,3,4,5, no JSON)");
  CHECK(json.status().code() == absl::StatusCode::kOutOfRange);
}

TEST_CASE("v2: bad rows can be allowed", "[serving]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto request =
      DecodeBinary(true, "[3]", "FP32", Numbers<float>({1, nan, 3}), {}, /*allows=*/true);
  REQUIRE(request.ok());
  CHECK(request->bad.rows == std::set<size_t>{1});
  CHECK(RequestText(request->rows, OneColumn(true)) == "3 rows; x: #1. - #3.");
  // More than are named.
  std::vector<float> numbers(20, nan);
  for (size_t i = 12; i < numbers.size(); ++i) numbers[i] = 1;
  const RowFormat format = OneColumn(true);
  const std::string json =
      R"({"inputs":[{"name":"x","shape":[20],"datatype":"FP32","parameters":{"binary_data_size":80}}]})";
  const auto many = DecodeV2(format, {.max_rows = 20, .allows_bad_rows = true}, json.size(),
                             std::make_shared<RequestMemory>(json + Numbers(numbers)));
  REQUIRE(many.ok());
  CHECK(many->bad.rows.size() == 12);
  CHECK(many->rows.rows == 20);
  CHECK(many->outputs.size() == 1);
  // A bad value that all rows share.
  const auto shared = Decode(
      R"({"inputs":[{"name":"age","shape":[1],"datatype":"FP64","data":["x"]},
      {"name":"price","shape":[3],"datatype":"FP64","data":[1,2,3]},
      {"name":"city","shape":[1],"datatype":"INT64","data":[1]},
      {"name":"seen","shape":[1],"datatype":"INT64","data":[1]}]})",
      {}, true);
  REQUIRE(shared.ok());
  CHECK(shared->bad.rows == std::set<size_t>{0, 1, 2});
}

TEST_CASE("v2: responses have a tensor for each label", "[serving]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const RowFormat format = SampleFormat({"sold", "liked"});
  PredictRequest request;
  request.rows.rows = 2;
  request.outputs = {{1, false}, {0, false}};
  const ScoredRows rows{.probabilities = {0.25F, 0.5F, nan, 0.75F}};
  const EncodedBody plain = EncodeV2(format, {"m", 120}, request, rows);
  CHECK(plain.content_type == "application/json");
  CHECK_FALSE(plain.json_bytes);
  CHECK(plain.bytes == R"({"model_name":"m","model_version":"120","outputs":[)"
                       R"({"name":"liked","datatype":"FP32","shape":[2,1],"data":[0.5,0.75]},)"
                       R"({"name":"sold","datatype":"FP32","shape":[2,1],"data":[0.25,null]}]})");

  request.id = "a\"b";
  request.outputs = {{1, true}, {0, false}, {0, true}};
  const EncodedBody binary = EncodeV2(format, {"m", 120}, request, rows);
  CHECK(binary.content_type == "application/octet-stream");
  REQUIRE(binary.json_bytes);
  CHECK(binary.bytes.substr(0, *binary.json_bytes) ==
        R"({"id":"a\"b","model_name":"m","model_version":"120","outputs":[)"
        R"({"name":"liked","datatype":"FP32","shape":[2,1],"parameters":{"binary_data_size":8}},)"
        R"({"name":"sold","datatype":"FP32","shape":[2,1],"data":[0.25,null]},)"
        R"({"name":"sold","datatype":"FP32","shape":[2,1],"parameters":{"binary_data_size":8}}]})");
  CHECK(binary.bytes.substr(*binary.json_bytes) == Numbers<float>({0.5F, 0.75F, 0.25F, nan}));
}

TEST_CASE("v2: metadata describes the columns that are read", "[serving]") {
  CHECK(ModelMetadata(SampleFormat(), "m", {120, 110}) ==
        R"({"name":"m","versions":["120","110"],"platform":"simurgh","inputs":[)"
        R"({"name":"age","datatype":"FP64","shape":[-1,1]},)"
        R"({"name":"price","datatype":"FP64","shape":[-1,1]},)"
        R"({"name":"city","datatype":"BYTES","shape":[-1,1]},)"
        R"({"name":"seen","datatype":"BYTES","shape":[-1,1]}],"outputs":[)"
        R"({"name":"sold","datatype":"FP32","shape":[-1,1]}]})");
  CHECK(ModelConfigJson(OneColumn(true), "m", 64) ==
        R"({"name":"m","platform":"simurgh","backend":"simurgh","max_batch_size":64,"input":[)"
        R"({"name":"x","data_type":"TYPE_FP64","dims":[1]}],"output":[)"
        R"({"name":"y","data_type":"TYPE_FP32","dims":[1]}]})");
  CHECK_THAT(ServerMetadata(),
             Catch::Contains("binary_tensor_data") && Catch::Contains("model_configuration"));
}

}  // namespace simurgh
