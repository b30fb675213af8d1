#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace simurgh {

// The parts of a request's header that are used.
struct HttpHead {
  std::string method;
  std::string target;  // With the query.
  std::string authorization;
  std::string content_encoding;
  std::string inference_header_length;  // Inference-Header-Content-Length, as written.
  bool keep_alive = true;
  bool expects_continue = false;
};

struct HttpRequest {
  HttpHead head;
  std::string body;
};

struct HttpResponse {
  int code = 200;
  std::string content_type = "application/json";
  std::vector<std::pair<const char*, std::string>> headers;  // Further ones.
  std::string body;
  const char* route = "other";  // For metrics: one of a few names.

  static HttpResponse Error(int code, std::string_view message);
};

// "Not Found" for 404.
const char* ReasonOf(int code);

// Status line, header lines and, unless it answers HEAD, the body.
std::string ResponseHead(const HttpResponse& response, bool keep_alive);

// Answers requests.
//
// Threads: the server's I/O thread calls it.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // Called before the body is received. Returns the response to a request that is refused.
  virtual std::optional<HttpResponse> Refuse(const HttpHead& head) = 0;
  // Calls `respond` once, on any thread.
  using Respond = absl::AnyInvocable<void(HttpResponse) &&>;
  virtual void Handle(HttpRequest request, Respond respond) = 0;
};

}  // namespace simurgh
