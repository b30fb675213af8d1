#pragma once

#include <cstddef>
#include <memory>
#include <string_view>

#include "services/serving/http_message.h"

namespace simurgh {

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

  // Takes what it can of the bytes received and not used so far. Stops at the end of the header,
  // and at the end of the request.
  Progress Take(std::string_view bytes);
  State state() const;
  // Bytes of the body received so far.
  size_t body_bytes() const;

  // Requires a complete header.
  const HttpHead& head() const;
  // Requires kDone. Once.
  HttpRequest Release();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace simurgh
