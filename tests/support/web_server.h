#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace simurgh::testing {

struct SeenRequest {
  std::string method;
  std::string target;                          // The path and query, as sent.
  std::map<std::string, std::string> headers;  // Keyed by the name in small letters.
  std::string body;
};

// What a server sends in answer to a request.
struct RawAnswer {
  std::string bytes;  // With the status line and headers.
  enum class Then { kKeep, kClose, kHang };
  Then then = Then::kKeep;  // kHang: sends nothing more until the client closes.
};

// Returns an answer with a Content-Length. headers: lines that end with \r\n.
RawAnswer Answer(int status, const std::string& body, const std::string& headers = "");

// A server of HTTP/1.1 on a free port of 127.0.0.1, which sends exactly the bytes of a test. Each
// connection has a thread, which calls the handler.
class WebServer {
 public:
  using Handler = std::function<RawAnswer(const SeenRequest&)>;

  struct Certificate {
    std::string file;  // PEM.
    std::string key_file;
  };

  // certificate: null for plain HTTP.
  explicit WebServer(Handler handler, const Certificate* certificate = nullptr);
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;
  ~WebServer();

  // "http://127.0.0.1:PORT"
  const std::string& url() const;
  std::vector<SeenRequest> requests() const;
  int connections() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace simurgh::testing
