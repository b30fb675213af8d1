#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace simurgh {

// A key pair of Amazon's kind, for a signature of version 4.
struct AccessKey {
  std::string id;
  std::string secret;
  std::string token;  // The session's; empty for a key without end.

  bool operator==(const AccessKey&) const = default;
};

struct WebRequest {
  std::string method = "GET";
  std::string url;  // Encoded; a query's parameters are sorted by name.
  std::vector<std::pair<std::string, std::string>> headers;
  std::string_view body;  // Must live until the answer.

  struct Signature {
    AccessKey key;
    std::string region;  // Not empty.
  };
  std::optional<Signature> signature;  // For the service s3.

  uint64_t max_bytes = uint64_t{64} << 20;  // The limit of the answer's body.
  std::chrono::milliseconds connect_timeout{10'000};
  // The request fails if this long no byte moves. It is noticed up to six seconds later.
  std::chrono::seconds stall_timeout{30};
  bool is_direct = false;  // Uses no proxy, whatever the environment names.
};

struct WebAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // Keyed by the name in small letters.
  std::string body;
};

// HTTP and HTTPS by libcurl, which is loaded at the first use. Keeps connections open. Uses the
// proxy of the environment, https_proxy and no_proxy, and the authorities of AWS_CA_BUNDLE, or the
// system's. Follows no redirects.
//
// Threads: any. Each call waits for its answer.
class WebClient {
 public:
  // Errors: FAILED_PRECONDITION without libcurl, or with one too old to sign, with the remedy.
  static StatusOr<std::unique_ptr<WebClient>> Create();
  WebClient(const WebClient&) = delete;
  WebClient& operator=(const WebClient&) = delete;
  ~WebClient();

  // Returns the answer, whatever its status. Errors: UNAVAILABLE for no or half an answer;
  // DEADLINE_EXCEEDED for a stall; OUT_OF_RANGE for a body that is too long; FAILED_PRECONDITION
  // for a certificate that is not trusted, and for a signed URL with a + in its query, which
  // libcurl 8.14 to 8.18 signs wrongly; INVALID_ARGUMENT for a URL that is not of HTTP, and for
  // a signed one with . or .. between two slashes, which libcurl cannot sign.
  // A message has the host, and nothing else of the request.
  StatusOr<WebAnswer> Send(const WebRequest& request);

 private:
  struct Handles;
  explicit WebClient(std::unique_ptr<Handles> handles);

  std::unique_ptr<Handles> handles_;
};

// Returns the text as a part of a URL: all but letters, digits and -._~ as %XX. kept: further
// characters that stay as they are.
std::string UrlEncoded(std::string_view text, std::string_view kept = "");

}  // namespace simurgh
