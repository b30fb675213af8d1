#include "tests/support/web_server.h"

#include <csignal>
#include <set>
#include <string_view>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/check.h"
#include "base/mutex.h"

namespace simurgh::testing {
namespace {

// A connection, plain or with TLS.
class Connection {
 public:
  Connection(int socket, SSL_CTX* tls) : socket_(socket) {
    if (tls == nullptr) return;
    ssl_ = SSL_new(tls);
    SSL_set_fd(ssl_, socket);
    is_open_ = SSL_accept(ssl_) == 1;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { SSL_free(ssl_); }

  // Returns false at the end.
  bool Read(std::string& to) {
    char bytes[65'536];
    if (!is_open_) return false;
    const auto count = ssl_ == nullptr ? ::recv(socket_, bytes, sizeof(bytes), 0)
                                       : SSL_read(ssl_, bytes, sizeof(bytes));
    if (count <= 0) return false;
    to.append(bytes, count);
    return true;
  }

  bool Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto count = ssl_ == nullptr
                             ? ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL)
                             : SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()));
      if (count <= 0) return false;
      bytes.remove_prefix(count);
    }
    return true;
  }

 private:
  const int socket_;
  SSL* ssl_ = nullptr;
  bool is_open_ = true;
};

// Reads a request from the connection. buffer: bytes read ahead. Returns false at the end.
bool ReadRequest(Connection& connection, std::string& buffer, SeenRequest& request) {
  size_t end = 0;
  while ((end = buffer.find("\r\n\r\n")) == buffer.npos) {
    if (!connection.Read(buffer)) return false;
  }
  const std::vector<std::string> lines = absl::StrSplit(buffer.substr(0, end), "\r\n");
  buffer.erase(0, end + 4);
  const std::vector<std::string> words = absl::StrSplit(lines[0], ' ');
  SIMURGH_CHECK_EQ(words.size(), 3U) << lines[0];
  request.method = words[0];
  request.target = words[1];
  for (size_t i = 1; i < lines.size(); ++i) {
    const std::pair<std::string, std::string> header =
        absl::StrSplit(lines[i], absl::MaxSplits(':', 1));
    request.headers[absl::AsciiStrToLower(header.first)] =
        std::string(absl::StripAsciiWhitespace(header.second));
  }
  size_t length = 0;
  if (request.headers.contains("content-length")) {
    SIMURGH_CHECK(absl::SimpleAtoi(request.headers["content-length"], &length));
  }
  if (request.headers.contains("expect")) connection.Write("HTTP/1.1 100 Continue\r\n\r\n");
  while (buffer.size() < length) {
    if (!connection.Read(buffer)) return false;
  }
  request.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return true;
}

}  // namespace

struct WebServer::State {
  explicit State(Handler answers) : handler(std::move(answers)) {}

  void Accept() {
    while (true) {
      const int socket = ::accept(listener, nullptr, nullptr);
      if (socket < 0) return;
      const MutexLock lock(mutex);
      ++connection_count;
      open.insert(socket);
      if (is_ending) ::shutdown(socket, SHUT_RDWR);
      threads.emplace_back([this, socket] {
        Serve(socket);
        const MutexLock closing(mutex);
        open.erase(socket);
        ::close(socket);
      });
    }
  }

  void Serve(int socket) {
    sigset_t signals;  // OpenSSL writes to closed connections.
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    Connection connection(socket, tls);
    std::string buffer;
    while (true) {
      SeenRequest request;
      if (!ReadRequest(connection, buffer, request)) return;
      {
        const MutexLock lock(mutex);
        seen.push_back(request);
      }
      const RawAnswer answer = handler(request);
      if (!connection.Write(answer.bytes) || answer.then == RawAnswer::Then::kClose) return;
      if (answer.then == RawAnswer::Then::kHang) {
        while (connection.Read(buffer)) {
        }
        return;
      }
    }
  }

  const Handler handler;
  std::string url;
  SSL_CTX* tls = nullptr;
  int listener = -1;
  std::thread acceptor;
  mutable Mutex mutex;
  bool is_ending ABSL_GUARDED_BY(mutex) = false;
  int connection_count ABSL_GUARDED_BY(mutex) = 0;
  std::set<int> open ABSL_GUARDED_BY(mutex);
  std::vector<SeenRequest> seen ABSL_GUARDED_BY(mutex);
  std::vector<std::thread> threads ABSL_GUARDED_BY(mutex);
};

RawAnswer Answer(int status, const std::string& body, const std::string& headers) {
  return {absl::StrCat("HTTP/1.1 ", status, " Text\r\nContent-Length: ", body.size(), "\r\n",
                       headers, "\r\n", body)};
}

WebServer::WebServer(Handler handler, const Certificate* certificate)
    : state_(std::make_unique<State>(std::move(handler))) {
  if (certificate != nullptr) {
    state_->tls = SSL_CTX_new(TLS_server_method());
    SIMURGH_CHECK_EQ(SSL_CTX_use_certificate_chain_file(state_->tls, certificate->file.c_str()), 1);
    SIMURGH_CHECK_EQ(
        SSL_CTX_use_PrivateKey_file(state_->tls, certificate->key_file.c_str(), SSL_FILETYPE_PEM),
        1);
  }
  state_->listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  SIMURGH_CHECK_EQ(::bind(state_->listener, generic, size), 0);
  SIMURGH_CHECK_EQ(::listen(state_->listener, 128), 0);
  SIMURGH_CHECK_EQ(::getsockname(state_->listener, generic, &size), 0);
  state_->url = absl::StrCat(certificate == nullptr ? "http" : "https",
                             "://127.0.0.1:", ntohs(address.sin_port));
  state_->acceptor = std::thread([this] { state_->Accept(); });
}

WebServer::~WebServer() {
  {
    const MutexLock lock(state_->mutex);
    state_->is_ending = true;
    for (const int socket : state_->open) ::shutdown(socket, SHUT_RDWR);
  }
  ::shutdown(state_->listener, SHUT_RDWR);
  state_->acceptor.join();
  ::close(state_->listener);
  std::vector<std::thread> threads;
  {
    const MutexLock lock(state_->mutex);
    threads.swap(state_->threads);
  }
  for (std::thread& thread : threads) thread.join();
  SSL_CTX_free(state_->tls);
}

const std::string& WebServer::url() const { return state_->url; }

std::vector<SeenRequest> WebServer::requests() const {
  const MutexLock lock(state_->mutex);
  return state_->seen;
}

int WebServer::connections() const {
  const MutexLock lock(state_->mutex);
  return state_->connection_count;
}

}  // namespace simurgh::testing
