#include "rpc/client.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/random.h"
#include "rpc/async.h"
#include "rpc/client_session.h"
#include "rpc/timers.h"

namespace simurgh::rpc {

class Client::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, std::string address, Hello hello,
       const ClientOptions& options, Observer* observer)
      : executor_(std::move(executor)),
        address_(std::move(address)),
        hello_(std::move(hello)),
        options_(options),
        observer_(observer),
        ready_(executor_),
        stopped_signal_(executor_),
        backoff_(options.backoff_min, options.backoff_max),
        random_(static_cast<uint64_t>(Clock::now().time_since_epoch().count())) {}

  static awaitable<StatusOr<IncomingMessage>> Call(std::shared_ptr<Impl> self, MethodId method,
                                                   OutgoingMessage request, Placement placement,
                                                   CallOptions options);
  SegmentBuffer Allocate(size_t bytes) {
    return AllocateSegment(session_ ? session_->sharing() : nullptr, bytes);
  }
  const Hello* peer() const { return session_ && session_->usable() ? &session_->peer() : nullptr; }
  void Stop();

 private:
  using Session = std::shared_ptr<ClientSession>;

  // The usable session; connects if there is none.
  [[nodiscard]] awaitable<StatusOr<Session>> Ready(Clock::time_point deadline);
  // Tries to connect until it succeeds, is refused or no call waits.
  [[nodiscard]] static awaitable<void> ConnectLoop(std::shared_ptr<Impl> self);
  void StartConnecting();
  [[nodiscard]] awaitable<Status> Connect();
  // Delays the next attempt.
  void NoteFailure(Status error, Clock::time_point when) {
    last_error_ = std::move(error);
    not_before_ = when + backoff_.Next(random_);
  }
  Status Unreachable(Clock::time_point deadline) const;

  const asio::any_io_executor executor_;
  const std::string address_;
  const Hello hello_;
  const ClientOptions options_;
  ObserverLink observer_;
  bool stopped_ = false;

  Session session_;                                     // The latest.
  std::vector<std::weak_ptr<ClientSession>> sessions_;  // All sessions with calls in flight.

  bool connecting_ = false;
  asio::cancellation_signal stop_connecting_;
  WaitList ready_;           // Calls that wait for a session.
  WaitList stopped_signal_;  // The connecting coroutine, between attempts.
  Backoff backoff_;
  Clock::time_point not_before_{};  // Earliest time of the next attempt.
  uint64_t attempts_ = 0;  // Number of attempts since the last connection that answered a call.
  uint64_t refusals_ = 0;
  Status last_error_;
  Random random_;
};

awaitable<StatusOr<IncomingMessage>> Client::Impl::Call(std::shared_ptr<Impl> self, MethodId method,
                                                        OutgoingMessage request,
                                                        Placement placement, CallOptions options) {
  const Clock::time_point start = Clock::now();
  const uint64_t request_bytes = BytesOf(request);
  self->observer_->OnCallStart(method);
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  StatusOr<IncomingMessage> result;
  StatusOr<Session> session = self->session_;
  if (start >= options.deadline) {
    session = absl::DeadlineExceededError("the deadline passed before the call");
  } else if (*session == nullptr || !(*session)->usable()) {
    const bool patient = options.deadline - start <= options.patience;
    session = co_await self->Ready(patient ? options.deadline : start + options.patience);
  }
  result = session.ok() ? co_await (*session)->Exchange(method.number, request, placement, options)
                        : session.status();
  co_await asio::this_coro::throw_if_cancelled(throws);
  const Clock::time_point end = Clock::now();
  self->observer_->OnCallEnd({.method = method,
                              .trace = options.trace,
                              .status = result.status(),
                              .duration = end - start,
                              .end = end,
                              .request_bytes = request_bytes,
                              .response_bytes = result.ok() ? BytesOf(*result) : 0});
  co_return std::move(result);
}

awaitable<StatusOr<Client::Impl::Session>> Client::Impl::Ready(Clock::time_point deadline) {
  while (!stopped_) {
    if (session_ && session_->usable()) co_return session_;
    const uint64_t refusals = refusals_;
    StartConnecting();  // The attempt may end before this returns.
    const bool notified = refusals_ == refusals && co_await ready_.Wait(deadline);
    if (stopped_) break;
    if (refusals_ != refusals) co_return last_error_;
    if (!notified) co_return Unreachable(deadline);
  }
  co_return absl::CancelledError(absl::StrCat("the client of ", address_, " was stopped"));
}

Status Client::Impl::Unreachable(Clock::time_point deadline) const {
  if (Clock::now() < deadline) return absl::CancelledError("the caller was cancelled");
  const std::string prefix = absl::StrCat("connection to ", address_, ": ");
  const absl::string_view reason =
      last_error_.ok() ? "still connecting" : absl::StripPrefix(last_error_.message(), prefix);
  return absl::UnavailableError(absl::StrCat("cannot reach ", address_, " in time after ",
                                             attempts_, " attempts: ", reason,
                                             "; start its daemon, or correct the address"));
}

void Client::Impl::StartConnecting() {
  if (std::exchange(connecting_, true)) return;
  if (const Session lost = std::exchange(session_, nullptr)) {
    // A server that accepts connections and closes them keeps the back-off.
    if (lost->has_answered()) {
      backoff_.Reset();
      attempts_ = 0;
    }
    NoteFailure(lost->Lost(), lost->ended());
  }
  const auto self = shared_from_this();
  SpawnCancellable(executor_, ConnectLoop(self), stop_connecting_,
                   [self](const std::exception_ptr& /*none*/) {});
}

awaitable<void> Client::Impl::ConnectLoop(std::shared_ptr<Impl> self) {
  co_await asio::this_coro::throw_if_cancelled(false);
  do {
    if (Clock::now() < self->not_before_) co_await self->stopped_signal_.Wait(self->not_before_);
    if (self->stopped_) break;
    ++self->attempts_;
    const Status connected = co_await self->Connect();
    if (connected.ok()) break;
    self->NoteFailure(Annotate(connected, absl::StrCat("connection to ", self->address_)),
                      Clock::now());
    // A retry cannot fix these.
    if (absl::IsInvalidArgument(connected) || absl::IsUnauthenticated(connected)) {
      ++self->refusals_;
      break;
    }
  } while (!self->stopped_ && !self->ready_.empty());
  self->connecting_ = false;
  self->ready_.NotifyAll();
}

awaitable<Status> Client::Impl::Connect() {
  try {
    SIMURGH_CO_ASSIGN_OR_RETURN(
        Session session, co_await ClientSession::Open(address_, hello_, options_, observer_,
                                                      Clock::now() + options_.connect_timeout));
    if (stopped_) {
      session->Close(absl::CancelledError("the client was stopped"));
      co_return absl::OkStatus();
    }
    std::erase_if(sessions_, [](const auto& old) { return old.expired(); });
    sessions_.push_back(session);
    session_ = std::move(session);
    co_return absl::OkStatus();
  } catch (...) {
    co_return StatusOfException(std::current_exception());
  }
}

void Client::Impl::Stop() {
  if (std::exchange(stopped_, true)) return;
  for (const auto& weak : std::exchange(sessions_, {})) {
    if (const Session session = weak.lock()) {
      session->Close(absl::CancelledError("the client was stopped"));
    }
  }
  session_.reset();  // Its timers would keep the event loop running.
  if (connecting_) stop_connecting_.emit(asio::cancellation_type::terminal);
  stopped_signal_.NotifyAll();
  ready_.NotifyAll();
  observer_.Detach();
}

Client::Client(asio::any_io_executor executor, std::string address, Hello hello,
               const ClientOptions& options, Observer* observer)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(address), std::move(hello),
                                   options, observer)) {}

Client::~Client() { impl_->Stop(); }

awaitable<StatusOr<IncomingMessage>> Client::Call(MethodId method, OutgoingMessage request,
                                                  Placement placement, CallOptions options) {
  return Impl::Call(impl_, method, std::move(request), std::move(placement), options);
}

SegmentBuffer Client::Allocate(size_t bytes) { return impl_->Allocate(bytes); }

const Hello* Client::peer() const { return impl_->peer(); }

void Client::Stop() { impl_->Stop(); }

}  // namespace simurgh::rpc
