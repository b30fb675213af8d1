// Requests to the online server: HTTP, and the bodies of both protocols. Requests for metrics, and
// their answers.

#include <memory>
#include <string>

#include "base/check.h"
#include "services/runtime/http_parser.h"
#include "services/serving/predict_api.h"
#include "services/serving/predict_request.h"
#include "services/serving/recommend_request.h"
#include "services/simurgh/scrape.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

constexpr size_t kMaxRows = 16;

const RowFormat& Format() {
  static const RowFormat format{.columns = {{.name = "age", .is_dense = true, .is_read = true},
                                            {.name = "city", .is_read = true},
                                            {.name = "seen", .is_list = true, .is_read = true},
                                            {.name = "note"}},
                                .labels = {"sold", "liked"}};
  return format;
}

std::string TextOf(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

Bytes BytesOf(const std::string& text) { return ToBytes(std::as_bytes(std::span(text))); }

// Every cell is readable, and the columns have the rows that the request has.
size_t SumOf(const ScoreRequest& request) {
  size_t sum = 0;
  SIMURGH_CHECK_LE(request.rows, kMaxRows);
  SIMURGH_CHECK(request.rows > 0);
  for (const auto& column : request.columns) {
    SIMURGH_CHECK(column.size() <= 1 || column.size() == request.rows) << column.size();
    for (const Cell& cell : column) {
      if (cell.kind == Cell::Kind::kText) {
        for (const char c : cell.text) sum += static_cast<unsigned char>(c);
      }
      if (cell.kind != Cell::Kind::kList) continue;
      for (const std::string_view id : cell.list) {
        for (const char c : id) sum += static_cast<unsigned char>(c);
      }
    }
  }
  return sum;
}

void CheckDecoded(const StatusOr<PredictRequest>& request, bool allows_bad_rows) {
  if (!request.ok()) {
    SIMURGH_CHECK(absl::IsInvalidArgument(request.status()) || absl::IsOutOfRange(request.status()))
        << request.status();
    SIMURGH_CHECK(!request.status().message().empty());
    return;
  }
  volatile size_t sum = SumOf(request->rows);
  (void)sum;
  SIMURGH_CHECK(allows_bad_rows || request->bad.rows.empty());
  for (const size_t row : request->bad.rows) SIMURGH_CHECK_LT(row, request->rows.rows);
  for (const auto& output : request->outputs) {
    SIMURGH_CHECK_LT(output.label, Format().labels.size());
  }
}

// --- v1_request

void RunV1(Input input) {
  for (const bool allows_bad_rows : {false, true}) {
    CheckDecoded(DecodeV1(Format(),
                          {.max_rows = kMaxRows,
                           .allows_bad_rows = allows_bad_rows,
                           .ignores_unknown = allows_bad_rows},
                          std::make_shared<RequestMemory>(TextOf(input))),
                 allows_bad_rows);
  }
}

std::vector<Bytes> V1Seeds() {
  return {BytesOf(R"({"instances":[{"age":7.0,"city":"a\u00e9","seen":["x",7]},{"note":null}]})"),
          BytesOf(R"({"common":{"age":-1e5},"instances":[{"seen":[]},{}]})"),
          BytesOf(R"({"inputs":{"age":7,"city":[["a"],[null]],"seen":[["x"],[]],"sold":[1]}})")};
}

// --- recommend_request

void RunRecommend(Input input) {
  const StatusOr<RecommendRequest> request = DecodeRecommend(
      Format(), {.max_rows = kMaxRows}, std::make_shared<RequestMemory>(TextOf(input)));
  CheckDecoded(request.ok() ? StatusOr<PredictRequest>(request->users) : request.status(), false);
  if (!request.ok()) return;
  SIMURGH_CHECK(request->k > 0 && request->k <= RecommendRequest::kMost);
  SIMURGH_CHECK(request->candidates.value_or(1) > 0);
}

std::vector<Bytes> RecommendSeeds() {
  return {BytesOf(R"({"instances":[{"age":7.0},{"note":null}],"k":5,"exclude":["x",7],)"
                  R"("filter":{"color":["red",1],"size":"2"}})"),
          BytesOf(R"({"rank":true,"candidates":20,"common":{"age":1},"instances":[{}]})")};
}

// --- v2_request: JSON only.

void RunV2(Input input) {
  for (const bool allows_bad_rows : {false, true}) {
    CheckDecoded(DecodeV2(Format(), {.max_rows = kMaxRows, .allows_bad_rows = allows_bad_rows},
                          std::nullopt, std::make_shared<RequestMemory>(TextOf(input))),
                 allows_bad_rows);
  }
}

constexpr char kV2[] =
    R"({"id":"q","inputs":[{"name":"age","shape":[2,1],"datatype":"FP64","data":[1.5,null]},)"
    R"({"name":"city","shape":[1],"datatype":"INT64","data":[7]},)"
    R"({"name":"seen","shape":[2],"datatype":"BYTES","data":[["a|b"],["c"]]}],)"
    R"("parameters":{"timeout":5000},"outputs":[{"name":"sold","parameters":{"binary_data":true}}]})";

std::vector<Bytes> V2Seeds() { return {BytesOf(kV2)}; }

// --- v2_binary: a part with JSON, then tensors.

void RunV2Binary(Input input) {
  SeedReader reader(input);
  const std::string json = TextOf(reader.Part());
  const std::string tensors = TextOf(reader.rest());
  for (const bool allows_bad_rows : {false, true}) {
    CheckDecoded(DecodeV2(Format(), {.max_rows = kMaxRows, .allows_bad_rows = allows_bad_rows},
                          json.size(), std::make_shared<RequestMemory>(json + tensors)),
                 allows_bad_rows);
  }
}

std::vector<Bytes> V2BinarySeeds() {
  const std::string json =
      R"({"inputs":[{"name":"age","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},)"
      R"({"name":"city","shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":6}},)"
      R"({"name":"seen","shape":[1],"datatype":"INT64","parameters":{"binary_data_size":8}}]})";
  SeedWriter writer;
  writer.Part(std::as_bytes(std::span(json))).Value(1.5F).Value(-2.0F);
  writer.Value(uint32_t{2}).Value('a').Value('b').Value(int64_t{-7});
  return {writer.bytes()};
}

// --- http_request: a connection, whole and byte by byte, gives the same requests. What is refused
// after them may be refused later if it arrives byte by byte.

std::string RequestsOf(const std::string& bytes, size_t piece) {
  constexpr HttpParser::Limits kLimits{.header_bytes = 512, .body_bytes = 256};
  std::string requests;
  std::string received;
  for (size_t next = 0;;) {
    HttpParser parser(kLimits);
    while (parser.state() != HttpParser::State::kDone) {
      const auto progress = parser.Take(received);
      SIMURGH_CHECK_LE(progress.used, received.size());
      received.erase(0, progress.used);
      SIMURGH_CHECK_LE(parser.body_bytes(), kLimits.body_bytes);
      if (progress.code != 0) return requests;
      if (progress.used > 0) continue;
      if (next == bytes.size()) return requests;
      const size_t count = std::min(piece, bytes.size() - next);
      received.append(bytes, next, count);
      next += count;
    }
    const HttpRequest request = parser.Release();
    (void)ParseRoute(request.head.target);
    requests += request.head.method + " " + request.head.target + " " + request.body + "\n";
  }
}

void RunHttp(Input input) {
  const std::string bytes = TextOf(input);
  SIMURGH_CHECK(RequestsOf(bytes, 1) == RequestsOf(bytes, SIZE_MAX));
}

std::vector<Bytes> HttpSeeds() {
  static constexpr char kGzip[] =  // Of "{}".
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\xae\x05\x00\x43\xbf\xa6\xa3\x02\x00\x00\x00";
  const std::string gzip(kGzip, sizeof(kGzip) - 1);
  return {BytesOf("POST http://a/v1 HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: " +
                  std::to_string(gzip.size()) + "\r\n\r\n" + gzip),
          BytesOf("POST /v2/models/m/infer HTTP/1.1\r\nContent-Length: 2\r\nExpect: "
                  "100-continue\r\n\r\n{}GET /v2 HTTP/1.0\r\n\r\n"),
          BytesOf("GET /trace?seconds=2 HTTP/1.1\r\nHost: a:1\r\nConnection: close\r\n\r\n"),
          BytesOf("POST /v1/models/m%20n/versions/7:predict HTTP/1.1\r\nTransfer-Encoding: "
                  "chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n")};
}

// --- metrics_answer: as `simurgh status` reads it.

void RunMetricsAnswer(Input input) {
  const auto metrics = MetricsText::Parse(TextOf(input));
  if (!metrics.ok()) {
    SIMURGH_CHECK(absl::IsInvalidArgument(metrics.status())) << metrics.status();
    return;
  }
  (void)metrics->Sum("a", {{"b", "c"}});
  SIMURGH_CHECK(!metrics->Label("b", "a") || metrics->Sum("a"));
}

std::vector<Bytes> MetricsAnswerSeeds() {
  return {BytesOf("# HELP a b\na{b=\"c\",d=\"e\\n\\\"\"} 1.5e3 7\na 2\n\nb_total +Inf\n")};
}

}  // namespace

std::vector<Target> ServingTargets() {
  return {{"v1_request", RunV1, V1Seeds},
          {"recommend_request", RunRecommend, RecommendSeeds},
          {"v2_request", RunV2, V2Seeds},
          {"v2_binary", RunV2Binary, V2BinarySeeds},
          {"http_request", RunHttp, HttpSeeds},
          {"metrics_answer", RunMetricsAnswer, MetricsAnswerSeeds}};
}

}  // namespace simurgh::fuzz
