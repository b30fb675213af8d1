#include "services/runtime/http_server.h"

#include <algorithm>
#include <array>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>

#include "base/log.h"
#include "rpc/async.h"
#include "services/runtime/io_thread.h"
#include "services/runtime/listener.h"

namespace simurgh {
namespace {

const GaugeFamily kConnections("simurgh_serve_connections", "Open connections.");
const CounterFamily kReceivedBytesTotal("simurgh_serve_received_bytes_total", "Bytes received.");
const CounterFamily kSentBytesTotal("simurgh_serve_sent_bytes_total", "Bytes sent.");
const CounterFamily kEvictedConnectionsTotal("simurgh_serve_evicted_connections_total",
                                             "Connections closed to make room for new ones.");
const CounterFamily kRequestsTotal("simurgh_serve_requests_total",
                                   "Answered requests, by route and status code.",
                                   {"route", "code"});
const HistogramFamily kRequestSeconds(
    "simurgh_serve_request_seconds",
    "Time of a request, by stage; all: from its first byte to the "
    "end of the response.",
    {"stage"});

namespace asio = boost::asio;
using asio::ip::tcp;
using rpc::Clock;

// Pause between a failed accept, as when no descriptors are left, and the next one.
constexpr std::chrono::milliseconds kAcceptPause{100};
// Time for a client to read the response to a request that was refused before its end. A reset of
// the connection would destroy the response.
constexpr std::chrono::milliseconds kLinger{1'000};
constexpr std::chrono::milliseconds kSmallestSweep{5};
constexpr std::chrono::milliseconds kLargestSweep{250};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// A connection, plain or with TLS.
class Stream {
 public:
  struct Progress {
    boost::system::error_code error;
    size_t bytes = 0;
  };
  using Buffers = std::array<asio::const_buffer, 2>;

  explicit Stream(tcp::socket socket) : socket_(std::move(socket)) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;

  // Makes the handshake, before the first bytes. Returns false if it fails.
  [[nodiscard]] virtual asio::awaitable<bool> Open() { co_return true; }
  [[nodiscard]] virtual asio::awaitable<Progress> Read(asio::mutable_buffer buffer) {
    const auto [error, bytes] = co_await socket_.async_read_some(buffer, rpc::kNoThrow);
    co_return Progress{error, bytes};
  }
  [[nodiscard]] virtual asio::awaitable<Progress> Write(Buffers buffers) {
    const auto [error, bytes] = co_await asio::async_write(socket_, buffers, rpc::kNoThrow);
    co_return Progress{error, bytes};
  }
  // Sends the end of the stream.
  [[nodiscard]] virtual asio::awaitable<void> Finish() {
    boost::system::error_code ignored;
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
    co_return;
  }

  // Ends a read or write with an error.
  void Cancel() {
    boost::system::error_code ignored;
    socket_.cancel(ignored);
  }
  void Close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }
  bool has_unread_bytes() const {
    boost::system::error_code ignored;
    return socket_.available(ignored) > 0;
  }

 protected:
  tcp::socket socket_;
};

class TlsStream final : public Stream {
 public:
  TlsStream(tcp::socket socket, SSL_CTX* tls)
      : Stream(std::move(socket)), tls_(socket_, SSL_new(tls)) {}

  [[nodiscard]] asio::awaitable<bool> Open() override {
    const auto [error] =
        co_await tls_.async_handshake(asio::ssl::stream_base::server, rpc::kNoThrow);
    co_return !error;
  }
  [[nodiscard]] asio::awaitable<Progress> Read(asio::mutable_buffer buffer) override {
    const auto [error, bytes] = co_await tls_.async_read_some(buffer, rpc::kNoThrow);
    co_return Progress{error, bytes};
  }
  [[nodiscard]] asio::awaitable<Progress> Write(Buffers buffers) override {
    const auto [error, bytes] = co_await asio::async_write(tls_, buffers, rpc::kNoThrow);
    co_return Progress{error, bytes};
  }
  [[nodiscard]] asio::awaitable<void> Finish() override {
    co_await tls_.async_shutdown(rpc::kNoThrow);
  }

 private:
  asio::ssl::stream<tcp::socket&> tls_;
};

struct Session : std::enable_shared_from_this<Session> {
  enum class Phase {
    kIdle,       // No byte of the next request has arrived.
    kReceiving,  // A request, or the TLS handshake, has begun.
    kAnswering,  // The handler has the request.
    kWriting,
    kClosing,
  };

  std::unique_ptr<Stream> stream;
  Phase phase = Phase::kReceiving;
  std::optional<Clock::time_point> deadline;
  bool is_late = false;         // The deadline passed while a request was received.
  bool is_crowded_out = false;  // Others need the memory of the request's body.
  std::vector<char> buffer;     // Bytes [begin, end) are received and not parsed.
  size_t begin = 0;
  size_t end = 0;
  uint64_t held_bytes = 0;  // Counted size of the request's body.
  HttpResponse response;
  rpc::Suspension answered;
  std::list<std::shared_ptr<Session>>::iterator place;  // Position in the list of sessions.

  bool waits_for_request() const { return phase == Phase::kIdle || phase == Phase::kReceiving; }
  std::string_view received() const { return {buffer.data() + begin, end - begin}; }
};

using SessionPointer = std::shared_ptr<Session>;
using Phase = Session::Phase;

class Server final : public HttpServer {
 public:
  Server(const Options& options, HttpHandler& handler, std::shared_ptr<SSL_CTX> tls,
         MetricRegistry& registry)
      : options_(options),
        handler_(handler),
        registry_(registry),
        connections_(registry.Get(kConnections)),
        received_total_(registry.Get(kReceivedBytesTotal)),
        sent_total_(registry.Get(kSentBytesTotal)),
        closed_total_(registry.Get(kEvictedConnectionsTotal)),
        read_seconds_(StageSeconds(registry, "read")),
        write_seconds_(StageSeconds(registry, "write")),
        all_seconds_(StageSeconds(registry, "all")),
        tls_(std::move(tls)),
        thread_("http"),
        acceptor_(thread_.executor()),
        sweep_(thread_.executor()) {}

  // Coroutines use the members, so the thread stops first. Its context outlives the sockets.
  ~Server() override {
    thread_.Stop();
    for (const SessionPointer& session : sessions_) session->answered.Abandon();
    sessions_.clear();
  }

  Status Listen() {
    SIMURGH_ASSIGN_OR_RETURN(TcpListener listener,
                             ListenAt(thread_.executor(), options_.address, options_.key));
    if (options_.only_loopback && !listener.is_loopback) {
      return absl::InvalidArgumentError(absl::StrCat(
          options_.key, ": '", options_.address,
          "' is reachable from other machines, but serving.security is loopback; use a loopback "
          "address, serving.security: tls, or insecure in a network that you trust"));
    }
    acceptor_ = std::move(listener.acceptor);
    address_ = std::move(listener.address);
    is_loopback_ = listener.is_loopback;
    asio::co_spawn(thread_.executor(), Accept(), asio::detached);
    asio::co_spawn(thread_.executor(), Sweep(), asio::detached);
    return absl::OkStatus();
  }

  const std::string& address() const override { return address_; }
  bool is_loopback() const override { return is_loopback_; }

  void SetTls(std::shared_ptr<SSL_CTX> tls) override {
    thread_.RunAndWait([&] { tls_ = std::move(tls); });
  }

  void Drain(Clock::time_point deadline) override {
    asio::co_spawn(thread_.executor(), DrainAll(deadline), asio::use_future).get();
  }

 private:
  [[nodiscard]] asio::awaitable<void> Accept() {
    asio::steady_timer pause(thread_.executor());
    while (!draining_) {
      auto [error, socket] = co_await acceptor_.async_accept(rpc::kNoThrow);
      if (draining_) co_return;
      if (error) {
        spdlog::warn("http: accept failed: {}{}", error.message(), RemedyOf(error.value()));
        pause.expires_after(kAcceptPause);
        co_await pause.async_wait(rpc::kNoThrow);
        continue;
      }
      Welcome(std::move(socket));
    }
  }

  void Welcome(tcp::socket socket) {
    if (sessions_.size() >= options_.max_connections && !MakeRoom()) return;
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const auto session = std::make_shared<Session>();
    session->stream = tls_ == nullptr ? std::make_unique<Stream>(std::move(socket))
                                      : std::make_unique<TlsStream>(std::move(socket), tls_.get());
    session->place = sessions_.insert(sessions_.end(), session);
    connections_.Set(static_cast<double>(sessions_.size()));
    asio::co_spawn(thread_.executor(), Run(session), [this, session](const std::exception_ptr&) {
      Release(*session);
      session->stream->Close();
      Forget(session);
    });
  }

  // Closes the connection that has waited longest, for a request or for a refused client's end.
  // Returns false if all are being answered.
  bool MakeRoom() {
    const auto oldest = std::ranges::find_if(sessions_, [](const auto& session) {
      return session->waits_for_request() || session->phase == Phase::kClosing;
    });
    closed_total_.Add();
    if (oldest == sessions_.end()) return false;
    const SessionPointer session = std::move(*oldest);
    session->phase = Phase::kClosing;
    session->stream->Close();
    Forget(session);
    return true;
  }

  void Forget(const SessionPointer& session) {
    if (session->place == sessions_.end()) return;
    sessions_.erase(session->place);
    session->place = sessions_.end();
    connections_.Set(static_cast<double>(sessions_.size()));
  }

  // Sessions that wait for requests are in the order in which their wait began.
  void Begin(Session& session, Phase phase, std::optional<Clock::duration> timeout) {
    if (session.phase == Phase::kClosing) return;
    session.phase = phase;
    session.deadline.reset();
    if (timeout) session.deadline = Clock::now() + *timeout;
    if (session.waits_for_request()) sessions_.splice(sessions_.end(), sessions_, session.place);
  }

  // Ends sessions that have exceeded their deadline. One timer for all is cheaper than one each.
  [[nodiscard]] asio::awaitable<void> Sweep() {
    for (;;) {
      sweep_.expires_after(
          std::clamp(options_.request_timeout / 16, kSmallestSweep, kLargestSweep));
      co_await sweep_.async_wait(rpc::kNoThrow);
      const Clock::time_point now = Clock::now();
      for (const SessionPointer& session : sessions_) {
        if (!session->deadline || *session->deadline > now) continue;
        if (session->phase == Phase::kReceiving && !session->is_late) {
          session->is_late = true;
          session->stream->Cancel();
        } else {
          session->stream->Close();
        }
      }
    }
  }

  [[nodiscard]] asio::awaitable<void> DrainAll(Clock::time_point deadline) {
    draining_ = true;
    boost::system::error_code error;
    acceptor_.cancel(error);
    acceptor_.non_blocking(true, error);
    // A client whose connection waits to be accepted may have sent its request.
    for (tcp::socket socket(thread_.executor()); !acceptor_.accept(socket, error);) {
      Welcome(std::move(socket));
      socket = tcp::socket(thread_.executor());
    }
    acceptor_.close(error);
    for (const SessionPointer& session : sessions_) {
      if (session->phase == Phase::kIdle) session->stream->Cancel();
    }
    asio::steady_timer pause(thread_.executor());
    while (!sessions_.empty()) {
      if (Clock::now() >= deadline) {
        const auto left = std::ranges::count_if(
            sessions_, [](const auto& one) { return one->phase != Phase::kIdle; });
        if (left > 0) spdlog::warn("http: closing connections at the deadline: requests={}", left);
        for (const SessionPointer& session : sessions_) session->stream->Close();
        co_return;
      }
      pause.expires_after(kSmallestSweep);
      co_await pause.async_wait(rpc::kNoThrow);
    }
  }

  [[nodiscard]] asio::awaitable<void> Run(SessionPointer session) {
    Begin(*session, Phase::kReceiving, options_.request_timeout);
    if (!co_await session->stream->Open()) co_return;
    session->buffer.resize(options_.limits.header_bytes);
    while (co_await ServeOne(*session)) {
    }
  }

  // Reads more bytes behind those received. Returns false at the end of the connection.
  [[nodiscard]] asio::awaitable<bool> ReadMore(Session& session) {
    if (session.begin > 0) {
      std::copy(session.buffer.begin() + static_cast<ptrdiff_t>(session.begin),
                session.buffer.begin() + static_cast<ptrdiff_t>(session.end),
                session.buffer.begin());
      session.end -= session.begin;
      session.begin = 0;
    }
    const auto [error, bytes] = co_await session.stream->Read(
        asio::buffer(session.buffer.data() + session.end, session.buffer.size() - session.end));
    session.end += bytes;
    received_total_.Add(bytes);
    co_return !error;
  }

  // Serves a request. Returns whether the connection may have another one.
  [[nodiscard]] asio::awaitable<bool> ServeOne(Session& session) {
    if (session.received().empty()) {
      Begin(session, Phase::kIdle, std::nullopt);
      if (draining_ && !session.stream->has_unread_bytes()) co_return false;
      if (!co_await ReadMore(session)) {
        // A drain ends the read; a request that has arrived is answered.
        if (!draining_ || !session.stream->has_unread_bytes()) co_return false;
        if (!co_await ReadMore(session)) co_return false;
      }
    }
    const Clock::time_point begin = Clock::now();
    Begin(session, Phase::kReceiving, options_.request_timeout);
    std::optional<HttpParser> parser(options_.limits);
    std::optional<HttpResponse> refusal;
    HttpHandler::Answer answer;
    while (parser->state() != HttpParser::State::kDone && !refusal) {
      const bool in_head = parser->state() == HttpParser::State::kHead;
      const HttpParser::Progress progress = parser->Take(session.received());
      session.begin += progress.used;
      if (progress.code != 0) {
        refusal = HttpResponse::Error(progress.code, progress.message);
      } else if (in_head && parser->state() != HttpParser::State::kHead) {
        std::variant<HttpHandler::Answer, HttpResponse> accepted = handler_.Accept(parser->head());
        if (auto* const response = std::get_if<HttpResponse>(&accepted)) {
          refusal = std::move(*response);
        } else {
          answer = std::get<HttpHandler::Answer>(std::move(accepted));
        }
        if (!refusal && parser->head().expects_continue && session.received().empty() &&
            !co_await Send(session, kContinue)) {
          co_return false;
        }
      } else if (!Hold(session, parser->body_bytes())) {
        refusal = Crowded();
      } else if (session.received().size() == session.buffer.size()) {
        // The parser needs a line of the header, or of a chunk, as a whole.
        refusal = HttpResponse::Error(431, "a line is too long; send shorter ones");
      } else if (parser->state() != HttpParser::State::kDone && !co_await ReadMore(session)) {
        if (session.is_crowded_out) {
          refusal = Crowded();
        } else if (session.is_late) {
          refusal = HttpResponse::Error(
              408,
              absl::StrCat("the request was not complete after ", options_.request_timeout.count(),
                           " ms; send it faster, or raise serving.request_timeout"));
        } else {
          co_return false;
        }
      }
    }
    const bool is_whole = parser->state() == HttpParser::State::kDone;
    const bool has_head = parser->state() != HttpParser::State::kHead;
    const bool is_head = has_head && parser->head().method == "HEAD";
    bool keep_alive = has_head && parser->head().keep_alive && is_whole;
    read_seconds_.Observe(Clock::now() - begin);
    if (refusal) {
      session.response = *std::move(refusal);
      parser.reset();  // Frees the body's memory: the client may take long to read the response.
    } else {
      Begin(session, Phase::kAnswering, std::nullopt);
      session.answered.Reset();
      std::move(answer)(parser->Release(), Responder(session));
      if (!session.answered.over()) co_await session.answered.Wait();
    }
    keep_alive = keep_alive && (!draining_ || !session.received().empty());
    const Clock::time_point answered = Clock::now();
    const bool sent = co_await Respond(session, keep_alive, is_head);
    Release(session);
    write_seconds_.Observe(Clock::now() - answered);
    all_seconds_.Observe(Clock::now() - begin);
    if (!sent) co_return false;
    if (!keep_alive) co_await Finish(session, /*reads_rest=*/!is_whole);
    co_return keep_alive;
  }

  static HttpResponse Crowded() {
    HttpResponse response =
        HttpResponse::Error(503, "the server holds too many bytes of requests; try again");
    response.headers.emplace_back("Retry-After", "1");
    return response;
  }

  HttpHandler::Respond Responder(Session& session) {
    return
        [executor = thread_.executor(), owner = session.shared_from_this()](HttpResponse response) {
          asio::dispatch(executor, [owner, response = std::move(response)]() mutable {
            owner->response = std::move(response);
            owner->answered.Resume();
          });
        };
  }

  // Counts the bytes of a body. If those of all connections are too many, refuses the requests that
  // have been received for longest, so that slow clients do not keep others out. Returns false if
  // that is not enough.
  bool Hold(Session& session, uint64_t bytes) {
    held_bytes_ += bytes - session.held_bytes;
    session.held_bytes = bytes;
    for (const SessionPointer& other : sessions_) {
      if (held_bytes_ <= options_.max_received_bytes) return true;
      if (other->phase != Phase::kReceiving || other->held_bytes == 0) continue;
      if (other.get() == &session) continue;
      held_bytes_ -= std::exchange(other->held_bytes, 0);
      other->is_crowded_out = true;
      other->stream->Cancel();
    }
    return held_bytes_ <= options_.max_received_bytes;
  }
  void Release(Session& session) { (void)Hold(session, 0); }

  [[nodiscard]] asio::awaitable<bool> Send(Session& session, std::string_view head,
                                           std::string_view body = "") {
    const auto [error, bytes] = co_await session.stream->Write(
        {asio::buffer(head.data(), head.size()), asio::buffer(body.data(), body.size())});
    sent_total_.Add(bytes);
    co_return !error;
  }

  [[nodiscard]] asio::awaitable<bool> Respond(Session& session, bool keep_alive, bool is_head) {
    Begin(session, Phase::kWriting, options_.request_timeout);
    Count(session.response);
    const HttpResponse response = std::exchange(session.response, {});
    const std::string head = ResponseHead(response, keep_alive);
    co_return co_await Send(session, head, is_head ? "" : response.body);
  }

  [[nodiscard]] asio::awaitable<void> Finish(Session& session, bool reads_rest) {
    Begin(session, Phase::kClosing, kLinger);
    co_await session.stream->Finish();
    for (uint64_t read = 0; reads_rest && read < options_.limits.body_bytes;) {
      session.begin = session.end = 0;
      if (!co_await ReadMore(session)) co_return;
      read += session.end;
    }
  }

  void Count(const HttpResponse& response) {
    Counter*& counter = requests_[{response.route, response.code}];
    if (counter == nullptr) {
      counter = &registry_.Get(kRequestsTotal, {response.route, absl::StrCat(response.code)});
    }
    counter->Add();
  }

  const Options options_;
  HttpHandler& handler_;
  MetricRegistry& registry_;
  Gauge& connections_;
  Counter& received_total_;
  Counter& sent_total_;
  Counter& closed_total_;
  Histogram& read_seconds_;
  Histogram& write_seconds_;
  Histogram& all_seconds_;
  std::map<std::pair<std::string_view, int>, Counter*> requests_;
  std::shared_ptr<SSL_CTX> tls_;
  std::list<SessionPointer> sessions_;
  uint64_t held_bytes_ = 0;
  bool draining_ = false;
  std::string address_;
  bool is_loopback_ = false;
  IoThread thread_;
  tcp::acceptor acceptor_;
  asio::steady_timer sweep_;
};

}  // namespace

Histogram& StageSeconds(MetricRegistry& registry, const char* stage) {
  return registry.Get(kRequestSeconds, LatencyBuckets(), {stage});
}

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const Options& options,
                                                        HttpHandler& handler,
                                                        std::shared_ptr<SSL_CTX> tls,
                                                        MetricRegistry& registry) {
  auto server = std::make_unique<Server>(options, handler, std::move(tls), registry);
  SIMURGH_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace simurgh
