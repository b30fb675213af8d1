#pragma once

#include <array>
#include <functional>

#include "absl/functional/any_invocable.h"
#include <boost/asio/basic_stream_socket.hpp>

#include "rpc/async.h"

namespace simurgh::rpc {

// Waits for what happens to one socket, with no system call but the event loop's own.
//
// Asio forgets an event that comes while nobody waits. So its waits first try to read or write, or
// have the kernel look again: one system call more for each. Here an operation of each way stays
// with Asio's reactor for good and hears of every event, and the owner remembers whether it has
// taken all there was.
//
// Threads: one, that of the executor. Lifetime: what waits may own this.
class ReactorWatch {
 public:
  enum class Way { kRead, kWrite, kError };
  using Told = absl::AnyInvocable<void(bool closed)>;

  // Takes the socket. attempt: called from within the reactor whenever there may be something to
  // read; whether the wait for it, if there is one, is over. It may ask waits() and nothing else.
  ReactorWatch(const asio::any_io_executor& executor, int socket, std::function<bool()> attempt);
  ReactorWatch(const ReactorWatch&) = delete;
  ReactorWatch& operator=(const ReactorWatch&) = delete;
  ~ReactorWatch() { Close(); }

  // Negative once it is closed.
  int socket() const { return socket_; }

  bool waits(Way way) const;

  // Calls `told` once, from the event loop. kRead: when an attempt has ended the wait. kWrite: when
  // there has been room since Full(). kError: when there is something of that kind. Each: when the
  // wait is ended, or the socket closed, which it is told. Requires that nobody waits that way.
  void Wait(Way way, Told told);

  // Ends a wait, unless what it is for has just come.
  void End(Way way);

  // A write has found too little room.
  void Full() { room_ = false; }

  // Closes the socket.
  void Close();

 private:
  class Op;

  void Add(Way way);
  void Start(Op& op);
  void Post(Told told);
  // Whether the wait is over.
  bool Happened(Way way);

  const asio::any_io_executor executor_;
  asio::detail::reactor& reactor_;
  int socket_;
  const std::function<bool()> attempt_;
  asio::detail::reactor::per_descriptor_data data_ = nullptr;
  std::array<Op*, 3> ops_{};  // One a way. The reactor owns them.
  bool room_ = false;         // There has been, and nobody has waited for it.
};

}  // namespace simurgh::rpc
