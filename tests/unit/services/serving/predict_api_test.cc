#include "services/serving/predict_api.h"

#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "services/serving/predict_request.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/services/serving/fake_backend.h"

namespace simurgh {
namespace {

struct Fixture {
  explicit Fixture(bool allows_bad_rows = false)
      : api({.name = "m", .limits = {.max_rows = 4, .allows_bad_rows = allows_bad_rows}}, backend,
            registry) {}

  // As the server does it.
  HttpResponse Send(HttpHead head, const std::string& body = "") {
    auto accepted = api.Accept(head);
    if (auto* const refusal = std::get_if<HttpResponse>(&accepted)) return std::move(*refusal);
    std::optional<HttpResponse> answer;
    std::get<HttpHandler::Answer>(std::move(accepted))(
        {std::move(head), body},
        [&answer](HttpResponse response) { answer = std::move(response); });
    REQUIRE(answer);
    return *std::move(answer);
  }
  HttpResponse Get(const std::string& target) { return Send({.method = "GET", .target = target}); }
  HttpResponse Post(const std::string& target, const std::string& body) {
    return Send({.method = "POST", .target = target}, body);
  }

  FakeBackend backend;
  MetricRegistry registry;
  PredictApi api;
};

std::string HeaderOf(const HttpResponse& response, std::string_view name) {
  for (const auto& [header, value] : response.headers) {
    if (header == name) return value;
  }
  return "";
}

// Requires a request that is not refused before its body.
void Handle(PredictApi& api, const HttpRequest& request, HttpHandler::Respond respond) {
  auto accepted = api.Accept(request.head);
  REQUIRE(std::holds_alternative<HttpHandler::Answer>(accepted));
  std::get<HttpHandler::Answer>(std::move(accepted))(request, std::move(respond));
}

constexpr char kPredict[] = "/v1/models/m:predict";
constexpr char kInfer[] = "/v2/models/m/infer";
constexpr char kInputs[] =
    R"({"inputs":[{"name":"age","shape":[1],"datatype":"FP64","data":[1]},
    {"name":"price","shape":[1],"datatype":"FP64","data":[1]},
    {"name":"city","shape":[2],"datatype":"BYTES","data":["abc","b"]},
    {"name":"seen","shape":[1],"datatype":"BYTES","data":["s"]}])";

}  // namespace

TEST_CASE("rows are predicted by both protocols, by any version", "[serving]") {
  Fixture fixture;
  CHECK(fixture.Post(kPredict, R"({"instances":[{"city":"abc"},{"city":"b"}]})").body ==
        R"({"predictions":[0.03,0.01],"model_version":"120"})");
  CHECK(fixture.Post("/v1/models/m/versions/110:predict", R"({"instances":[{}]})").body ==
        R"({"predictions":[0],"model_version":"110"})");
  CHECK(fixture.backend.last_step() == 110);
  CHECK(fixture.Post(kInfer, absl::StrCat(kInputs, R"(,"id":"q"})")).body ==
        R"({"id":"q","model_name":"m","model_version":"120","outputs":[{"name":"sold",)"
        R"("datatype":"FP32","shape":[2,1],"data":[0.03,0.01]}]})");
  const HttpResponse binary =
      fixture.Post(kInfer, absl::StrCat(kInputs, R"(,"parameters":{"binary_data_output":true}})"));
  CHECK(binary.content_type == "application/octet-stream");
  CHECK(std::stoul(HeaderOf(binary, "Inference-Header-Content-Length")) == binary.body.size() - 8);
}

TEST_CASE("the server and its model describe themselves", "[serving]") {
  Fixture fixture;
  CHECK_THAT(fixture.Get("/v2").body, Catch::Contains("\"name\":\"simurgh\""));
  CHECK(fixture.Get("/v2/health/live").code == 200);
  CHECK(fixture.Get("/v2/health/ready").code == 200);
  CHECK(fixture.Get("/v2/models/m/ready").code == 200);
  CHECK(fixture.Get("/v2/models/m/versions/110/ready").code == 200);
  CHECK_THAT(fixture.Get("/v2/models/m").body, Catch::Contains("\"versions\":[\"120\",\"110\"]"));
  CHECK_THAT(fixture.Get("/v2/models/m/config").body, Catch::Contains("\"max_batch_size\":4"));
  CHECK_THAT(fixture.Get("/v1/models/m").body, Catch::Contains("\"version\":\"120\""));
  CHECK_THAT(fixture.Get("/v1/models/m/versions/110").body,
             Catch::Contains("\"version\":\"110\"") && !Catch::Contains("\"120\""));
  CHECK(fixture.Send({.method = "HEAD", .target = "/v2"}).code == 200);
}

TEST_CASE("what cannot be answered has its code and a reason", "[serving]") {
  Fixture fixture;
  const std::string body = R"({"instances":[{"city":"b"}]})";
  const std::vector<std::tuple<HttpHead, std::string, int, std::string>> cases = {
      {{.method = "GET", .target = "/x"},
       "",
       404,
       "no such path; use /v2/models/m/infer or /v1/models/m:predict"},
      {{.method = "GET", .target = "/v2/models/other"},
       "",
       404,
       "no model 'other'; this server has m"},
      {{.method = "POST", .target = "/v1/models/m/versions/7:predict"},
       body,
       404,
       "version 7 is not loaded; use one of 120, 110"},
      {{.method = "GET", .target = kPredict}, "", 405, "use POST for this path"},
      {{.method = "POST", .target = "/v2"}, "", 405, "use GET for this path"},
      {{.method = "POST", .target = "/v1/models/m:classify"},
       body,
       404,
       "unknown verb ':classify'; use POST with /v1/models/m:predict"},
      {{.method = "POST", .target = "/v1/models/m/versions/120:regress"},
       body,
       404,
       "unknown verb ':regress'; use POST with /v1/models/m:predict"},
      {{.method = "POST", .target = "/v1/models/m%3aclassify"},
       body,
       404,
       "unknown verb ':classify'; use POST with /v1/models/m:predict"},
      {{.method = "GET", .target = "/v1/models/n:classify"},
       "",
       404,
       "no model 'n:classify'; this server has m"},
      {{.method = "POST", .target = kPredict, .content_encoding = "br"},
       body,
       415,
       "Content-Encoding 'br' is not supported; use gzip, or send the body as it is"},
      {{.method = "POST", .target = kInfer, .inference_header_length = "x"},
       "{}",
       400,
       "Inference-Header-Content-Length: 'x' is not a number of bytes"},
      {{.method = "POST", .target = kInfer},
       "{}",
       400,
       "inputs: is missing; send a tensor for each column"},
      {{.method = "POST", .target = kPredict},
       R"({"instances":[{},{},{},{},{}]})",
       413,
       "the request has 5 rows or more; send at most 4, see serving.max_rows"},
      {{.method = "POST", .target = kPredict},
       R"({"instances":[{"city":"b"},{"city":"bad"}]})",
       400,
       "row 1: column 'city': 'bad' is bad; correct it"},
  };
  for (const auto& [head, request, code, error] : cases) {
    INFO(head.method << " " << head.target);
    const HttpResponse response = fixture.Send(head, request);
    CHECK(response.code == code);
    CHECK(response.body == HttpResponse::Error(code, error).body);
  }
  CHECK(HeaderOf(fixture.Get(kPredict), "Allow") == "POST");
  CHECK(HeaderOf(fixture.Post("/v2", ""), "Allow") == "GET, HEAD");
}

TEST_CASE("a path may have escapes, and a model a colon in its name", "[serving]") {
  FakeBackend backend;
  MetricRegistry registry;
  PredictApi api({.name = "a:b"}, backend, registry);
  for (const char* target : {"/v1/models/a:b:predict", "/v1/models/a%3Ab%3Apredict"}) {
    int code = 0;
    Handle(api, {{.method = "POST", .target = target}, R"({"instances":[{}]})"},
           [&code](const HttpResponse& response) { code = response.code; });
    CHECK(code == 200);
  }
  CHECK(std::holds_alternative<HttpHandler::Answer>(
      api.Accept({.method = "GET", .target = "/v1/models/a:b"})));
}

TEST_CASE("columns in `inputs` are answered with columns in `outputs`", "[serving]") {
  Fixture fixture;
  CHECK(fixture.Post(kPredict, R"({"inputs":{"age":3,"city":["abc","b"]}})").body ==
        R"({"outputs":[0.03,0.01],"model_version":"120"})");
}

TEST_CASE("bad rows can be allowed in both protocols", "[serving]") {
  Fixture fixture(/*allows_bad_rows=*/true);
  CHECK(
      fixture.Post(kPredict, R"({"instances":[{"city":"b"},{"city":"bad"},{"age":true}]})").body ==
      R"({"predictions":[0.01,null,null],"model_version":"120"})");
}

TEST_CASE("items are recommended to users", "[serving]") {
  Fixture fixture;
  const std::string target = "/v1/models/m:recommend";
  const std::string body = R"({"instances":[{"city":"abc"},{}],"k":3})";
  const auto expect = [&](int code, const std::string& text) {
    const HttpResponse response = fixture.Post(target, body);
    INFO(response.body);
    CHECK(response.code == code);
    CHECK_THAT(response.body, Catch::Contains(text));
    CHECK(std::string(response.route) == "recommend");
  };
  expect(404, "this server only predicts");

  FakeRecommender recommender;
  fixture.backend.recommends = &recommender;
  expect(200, R"({"recommendations":[{"ids":["a","b"],"scores":[2,3]},{"ids":["a","b"],)"
              R"("scores":[2,3]}],"model_version":"120"})");
  CHECK(fixture.Send({.method = "GET", .target = target}).code == 405);
  const HttpResponse old = fixture.Post("/v1/models/m/versions/110:recommend", body);
  CHECK(old.code == 404);
  CHECK_THAT(old.body, Catch::Contains("with the newest version only"));
  CHECK(fixture.Post(target, R"({"instances":[{"town":"abc"}]})").code == 400);
  CHECK(fixture.Post(target, R"({"instances":[{},{},{},{},{}]})").code == 413);

  recommender.refusal = absl::InvalidArgumentError("no such column");
  expect(400, "no such column");
  recommender.refusal = absl::ResourceExhaustedError("wait");
  expect(503, "wait");
  recommender.problem = "the file is missing";
  expect(503, "the file is missing");
  recommender.is_empty = true;
  expect(404, "no items to recommend: the file is missing");

  recommender = FakeRecommender();
  fixture.backend.Fill();
  expect(503, "too many requests wait");
}

TEST_CASE("of many bad rows ten are named", "[serving]") {
  MetricRegistry registry;
  FakeBackend backend;
  PredictApi api({.name = "m", .limits = {.max_rows = 100}}, backend, registry);
  std::string body = "{\"instances\":[";
  for (int i = 0; i < 14; ++i) body += R"({"city":"bad"},)";
  body.back() = ']';
  std::string answer;
  Handle(api, {{.method = "POST", .target = kPredict}, body + "}"},
         [&](const HttpResponse& response) { answer = response.body; });
  CHECK_THAT(answer, Catch::Contains("row 9: ") && !Catch::Contains("row 10: ") &&
                         Catch::Contains("\\nand 4 more"));
}

TEST_CASE("without a version the model is not ready, with the reason", "[serving]") {
  Fixture fixture;
  fixture.backend.SetSteps({}, "the folder has no checkpoint");
  for (const char* target : {"/v2/health/ready", "/v2/models/m/ready", "/v2/models/m"}) {
    INFO(target);
    const HttpResponse response = fixture.Get(target);
    CHECK(response.code == 503);
    CHECK_THAT(response.body, Catch::Contains("the folder has no checkpoint"));
  }
  CHECK(fixture.Get("/v2/health/live").code == 200);
  const HttpResponse response = fixture.Post(kPredict, R"({"instances":[{}]})");
  CHECK(response.code == 503);
  CHECK(HeaderOf(response, "Retry-After") == "1");
}

TEST_CASE("a model that is too old answers, and is not ready", "[serving]") {
  Fixture fixture;
  fixture.backend.SetSteps({120}, "the newest version is 2h old");
  CHECK(fixture.Get("/v2/health/ready").code == 503);
  CHECK(fixture.Post(kPredict, R"({"instances":[{}]})").code == 200);
}

TEST_CASE("a queue that is too long is 503 with Retry-After", "[serving]") {
  Fixture fixture;
  for (const Status& status :
       {absl::ResourceExhaustedError("wait"), absl::DeadlineExceededError("wait")}) {
    fixture.backend.Refuse(status);
    const HttpResponse response = fixture.Post(kPredict, R"({"instances":[{}]})");
    CHECK(response.code == 503);
    CHECK(HeaderOf(response, "Retry-After") == "1");
  }
}

TEST_CASE("while too many requests wait, others are 503 before they are decoded", "[serving]") {
  Fixture fixture;
  REQUIRE(fixture.Post(kPredict, "no JSON").code == 400);
  fixture.backend.Fill();
  const HttpResponse response = fixture.Post(kPredict, "no JSON");
  CHECK(response.code == 503);
  CHECK(HeaderOf(response, "Retry-After") == "1");
}

TEST_CASE("a version that goes meanwhile is 404, or another one answers", "[serving]") {
  Fixture fixture;
  fixture.backend.AnswerWith(121);
  CHECK(fixture.Post(kPredict, R"({"instances":[{"city":"abc"}]})").body ==
        R"({"predictions":[0.03],"model_version":"121"})");
  CHECK_THAT(fixture.Post(kInfer, absl::StrCat(kInputs, "}")).body,
             Catch::Contains(R"("model_version":"121")"));
  fixture.backend.Refuse(absl::NotFoundError("gone"));
  const HttpResponse response =
      fixture.Post("/v1/models/m/versions/110:predict", R"({"instances":[{}]})");
  CHECK(response.code == 404);
  CHECK(response.body == R"({"error":"gone"})");
}

TEST_CASE("an error that stays is 500 without Retry-After", "[serving]") {
  Fixture fixture;
  for (const Status& status :
       {absl::InternalError("bug"), absl::FailedPreconditionError("a plug-in failed")}) {
    fixture.backend.Refuse(status);
    const HttpResponse response = fixture.Post(kPredict, R"({"instances":[{}]})");
    CHECK(response.code == 500);
    CHECK(HeaderOf(response, "Retry-After").empty());
  }
}

TEST_CASE("the cells of all requests have a limit together", "[serving]") {
  MetricRegistry registry;
  FakeBackend backend;
  PredictApi api({.name = "m", .max_cell_bytes = 100 * sizeof(Cell)}, backend, registry);
  const auto ask = [&](size_t rows, std::vector<int>& codes) {
    std::string body = R"({"instances":[)";
    for (size_t i = 0; i < rows; ++i) body += R"({"city":"b"},)";
    body.back() = ']';
    Handle(api, {{.method = "POST", .target = kPredict}, body + "}"},
           [&codes](const HttpResponse& response) { codes.push_back(response.code); });
  };
  std::vector<int> held;
  std::vector<int> codes;
  backend.Hold();
  ask(150, held);  // Alone, a request has its place.
  ask(1, codes);
  CHECK(codes == std::vector{503});
  CHECK(held.empty());
  backend.AnswerHeld();
  CHECK(held == std::vector{200});
  backend.Hold();
  ask(60, held);
  ask(40, held);
  ask(1, codes);
  CHECK(codes == std::vector{503, 503});
  backend.AnswerHeld();
  CHECK(held == std::vector{200, 200, 200});
}

TEST_CASE("after the end of calls the backend is not needed", "[serving]") {
  MetricRegistry registry;
  auto backend = std::make_unique<FakeBackend>();
  PredictApi api({.name = "m"}, *backend, registry);
  std::vector<std::pair<HttpHead, HttpHandler::Answer>> requests;
  for (const auto& [method, target] :
       {std::pair("POST", kPredict), {"GET", "/v2/models/m"}, {"GET", "/v2/health/ready"}}) {
    const HttpHead head{.method = method, .target = target};
    requests.emplace_back(head, std::get<HttpHandler::Answer>(api.Accept(head)));
  }
  api.EndCalls();
  backend.reset();
  for (auto& [head, answer] : requests) {
    CHECK(std::get<HttpResponse>(api.Accept(head)).code == 503);
    int code = 0;
    std::move(answer)({head, R"({"instances":[{}]})"},
                      [&code](const HttpResponse& response) { code = response.code; });
    CHECK(code == 503);
  }
}

TEST_CASE("the shorter of timeout and queue_timeout limits the wait", "[serving]") {
  Fixture fixture;
  using std::chrono::milliseconds;
  const auto wait_with = [&](const std::string& timeout) {
    CHECK(
        fixture.Post(kInfer, absl::StrCat(kInputs, ",\"parameters\":{\"timeout\":", timeout, "}}"))
            .code == 200);
    return fixture.backend.max_wait();
  };
  CHECK(wait_with("5000") == milliseconds(5));
  CHECK(wait_with("1") == milliseconds(1));
  CHECK(wait_with("0") == milliseconds(100));
  CHECK(wait_with("18446744073709551615") == milliseconds(100));
}

TEST_CASE("tokens protect all but health", "[serving]") {
  const TemporaryFolder folder;
  const std::string token = std::string(31, 't') + '0';
  const std::string path = folder.Write("tokens", token);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  Fixture fixture;
  fixture.api.SetTokens(*BearerTokens::Load(path));
  for (const char* target : {"/v2", "/v2/models/m", "/x"}) {
    INFO(target);
    const HttpResponse response = fixture.Get(target);
    CHECK(response.code == 401);
    CHECK(HeaderOf(response, "WWW-Authenticate") == "Bearer");
    CHECK(fixture.Send({.method = "GET", .target = target, .authorization = "Bearer x"}).code ==
          401);
  }
  CHECK(fixture.Post(kPredict, "").code == 401);
  CHECK(fixture.Get("/v2/health/ready").code == 200);
  CHECK(fixture.Get("/v2/health/live").code == 200);
  CHECK(fixture.Send({.method = "GET", .target = "/v2", .authorization = "Bearer " + token}).code ==
        200);
}

TEST_CASE("a stopping server is not ready and predicts no more", "[serving]") {
  Fixture fixture;
  fixture.api.BeginDrain();
  CHECK(fixture.Get("/v2/health/live").code == 200);
  CHECK(fixture.Get("/v2/health/ready").code == 503);
  CHECK(fixture.Get("/v2/models/m/versions/110/ready").code == 503);
  const HttpResponse response = fixture.Post(kPredict, R"({"instances":[{}]})");
  CHECK(response.code == 503);
  CHECK(HeaderOf(response, "Retry-After") == "1");
}

}  // namespace simurgh
