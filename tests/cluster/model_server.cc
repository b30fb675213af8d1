#include "tests/cluster/model_server.h"

#include <limits>

#include <signal.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <catch2/catch.hpp>

#include "base/check.h"
#include "tests/support/http_get.h"
#include "tests/support/waiting.h"
#include "tests/unit/services/serving/raw_client.h"

namespace simurgh::testing {

void Await(const std::string& what, const std::function<bool()>& holds) {
  INFO(what);
  REQUIRE(Eventually(holds));
}

HttpAnswer ParseAnswer(const std::string& response) {
  const size_t end = response.find("\r\n\r\n");
  if (end == response.npos) return {};
  return {std::stoi(response.substr(response.find(' '))), response.substr(0, end),
          response.substr(end + 4)};
}

std::string PredictRequestOf(const std::string& path, const std::string& body,
                             const std::string& more_headers, const std::string& verb) {
  return absl::StrCat("POST ", path, ":", verb, " HTTP/1.1\r\n", more_headers,
                      "Content-Length: ", body.size(), "\r\n\r\n", body);
}

std::vector<double> PredictionsOf(const std::string& body) {
  const size_t begin = body.find('[');
  SIMURGH_CHECK(body.starts_with("{\"predictions\":") && begin != body.npos) << body;
  std::vector<double> predictions;
  for (const absl::string_view text :
       absl::StrSplit(body.substr(begin + 1, body.find(']') - begin - 1), ',')) {
    double number = std::numeric_limits<double>::quiet_NaN();
    SIMURGH_CHECK(text == "null" || absl::SimpleAtod(text, &number)) << body;
    predictions.push_back(number);
  }
  return predictions;
}

uint64_t VersionOf(const std::string& body) {
  constexpr std::string_view kKey = "\"model_version\":\"";
  const size_t begin = body.find(kKey);
  SIMURGH_CHECK(begin != body.npos) << body;
  return std::stoull(body.substr(begin + kKey.size()));
}

ModelServer::ModelServer(const std::string& model, const std::vector<std::string>& settings,
                         const std::vector<std::string>& more) {
  std::vector<std::string> words = {"serve",
                                    "--model",
                                    model,
                                    "--listen",
                                    "127.0.0.1:0",
                                    "--set",
                                    "serving.queue_timeout=1m"};  // However slow the machine is.
  words.insert(words.end(), more.begin(), more.end());
  for (const std::string& setting : settings) words.insert(words.end(), {"--set", setting});
  words.insert(words.end(), {"--set", "serving.metrics=127.0.0.1:0", "--set", "serving.poll=20ms"});
  process_ = std::make_unique<DaemonProcess>("simurgh", words, folder_.Path("log"));
  Await("the server listens", [&] {
    INFO(process_->log());
    REQUIRE(process_->running());
    return process_->output().ends_with("\n");
  });
  const std::string line = process_->output();
  const size_t begin = line.find("://") + 3;
  address_ = line.substr(begin, line.find('/', begin) - begin);
}

HttpAnswer ModelServer::Get(const std::string& path) const {
  return ParseAnswer(HttpGet(address_, path));
}

HttpAnswer ModelServer::Predict(const std::string& body, std::optional<uint64_t> version) const {
  RawClient client(address_);
  const std::string path =
      absl::StrCat("/v1/models/model", version ? absl::StrCat("/versions/", *version) : "");
  client.Send(PredictRequestOf(path, body, "Connection: close\r\n"));
  return ParseAnswer(client.ReadToEnd());
}

HttpAnswer ModelServer::Recommend(const std::string& body) const {
  RawClient client(address_);
  client.Send(PredictRequestOf("/v1/models/model", body, "Connection: close\r\n", "recommend"));
  return ParseAnswer(client.ReadToEnd());
}

void ModelServer::AwaitReady() const {
  Await("the server is ready", [&] {
    INFO(process_->log());
    return Get("/v2/health/ready").code == 200;
  });
}

void ModelServer::AwaitVersion(uint64_t step) const {
  Await(absl::StrCat("step ", step, " is in use"),
        [&] { return Metric("simurgh_serve_model_step") == static_cast<double>(step); });
}

double ModelServer::Metric(const std::string& name) const {
  const std::string text = HttpGet(process_->metrics_address(), "/metrics");
  const size_t at = text.find("\n" + name + " ");
  double value = 0;
  if (at != text.npos) {
    const size_t begin = at + name.size() + 2;
    SIMURGH_CHECK(absl::SimpleAtod(text.substr(begin, text.find('\n', begin) - begin), &value));
  }
  return value;
}

int ModelServer::Stop() {
  process_->Signal(SIGTERM);
  return process_->Wait(std::chrono::seconds(60)).value_or(-1);
}

}  // namespace simurgh::testing
