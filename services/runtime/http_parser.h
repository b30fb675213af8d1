#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/any_invocable.h"

namespace simurgh {

// The parts of a request's header that are used.
struct HttpHead {
  std::string method;
  std::string target;  // The path, with the query.
  std::string authorization;
  std::string content_encoding;  // Content-Encoding, except gzip, which the parser decompresses.
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
  const char* route = "other";  // Label of metrics: one of a few names.

  // Returns a response with the body {"error": message}.
  static HttpResponse Error(int code, std::string_view message);
};

// Returns the status line and the header lines.
std::string ResponseHead(const HttpResponse& response, bool keep_alive);

// Answers requests.
//
// Threads: the server's I/O thread calls it.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  using Respond = absl::AnyInvocable<void(HttpResponse) &&>;
  // Calls `respond` once, on any thread.
  using Answer = absl::AnyInvocable<void(HttpRequest request, Respond respond) &&>;
  // Called before the body is received. Returns a function that answers the whole request, which
  // the server might not call, or the response to a request that is refused.
  virtual std::variant<Answer, HttpResponse> Accept(const HttpHead& head) = 0;
};

// Parses one HTTP/1.x request from the bytes of a connection.
//
// Threads: one owner.
class HttpParser {
 public:
  struct Limits {
    uint32_t header_bytes = 16 * 1024;
    uint64_t body_bytes = 8 << 20;
  };

  explicit HttpParser(const Limits& limits);
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;
  ~HttpParser();

  enum class State { kHead, kBody, kDone };
  struct Progress {
    size_t used = 0;  // Bytes of the input that are not needed any more.
    int code = 0;     // 400, 413 or 431: refused, with the message. The connection cannot be used.
    std::string message;
  };

  // Parses the bytes that are received and not used so far. Stops at the end of the header, and at
  // the end of the request.
  Progress Take(std::string_view bytes);
  State state() const;
  // Returns the decompressed size of the body received so far.
  size_t body_bytes() const;

  // Returns the parts of the header. Requires a complete header.
  const HttpHead& head() const;
  // Returns the request. Requires kDone. Call it once.
  HttpRequest Release();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace simurgh
