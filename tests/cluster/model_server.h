#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/temporary_folder.h"

// `simurgh serve`, and a client.
namespace simurgh::testing {

// Waits until the condition holds. Fails the case after a minute.
void Await(const std::string& what, const std::function<bool()>& holds);

struct HttpAnswer {
  int code = 0;  // 0: the connection ended without an answer.
  std::string head;
  std::string body;
};

// The parts of a response.
HttpAnswer ParseAnswer(const std::string& response);

// A request by v1.
std::string PredictRequestOf(const std::string& path, const std::string& body,
                             const std::string& more_headers = "",
                             const std::string& verb = "predict");

// The predictions of a v1 response for one label. NaN for null.
std::vector<double> PredictionsOf(const std::string& body);
// The version in a v1 response.
uint64_t VersionOf(const std::string& body);

// A server of a model's folder, which is named "model", at a free port.
class ModelServer {
 public:
  // settings: KEY=VALUE; a request waits for a thread up to a minute, unless set. Waits until it
  // listens.
  explicit ModelServer(const std::string& model, const std::vector<std::string>& settings = {},
                       const std::vector<std::string>& more = {});

  DaemonProcess& process() { return *process_; }
  const std::string& address() const { return address_; }

  HttpAnswer Get(const std::string& path) const;
  // Asks at ":predict" of the model, by v1. version: none for the newest.
  HttpAnswer Predict(const std::string& body, std::optional<uint64_t> version = {}) const;
  // Asks at ":recommend" of the model.
  HttpAnswer Recommend(const std::string& body) const;
  // Waits until the server is ready.
  void AwaitReady() const;
  // Waits until the newest version is this one.
  void AwaitVersion(uint64_t step) const;
  // A metric by its name and labels, as in the text; 0 if there is none.
  double Metric(const std::string& name) const;
  // SIGTERM. The exit code.
  int Stop();

 private:
  const TemporaryFolder folder_;
  std::unique_ptr<DaemonProcess> process_;
  std::string address_;
};

}  // namespace simurgh::testing
