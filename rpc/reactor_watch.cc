#include "rpc/reactor_watch.h"

#include <utility>

#include <unistd.h>

#include "simurgh/base/check.h"

namespace simurgh::rpc {

// An operation of the reactor, which calls Perform() for an event, and Complete() later if that has
// ended a wait.
class ReactorWatch::Op : public asio::detail::reactor_op {
 public:
  Op(ReactorWatch* of, Way of_way)
      : reactor_op(boost::system::error_code(), &Op::Perform, &Op::Complete),
        watch(of),
        way(of_way) {}

  ReactorWatch* watch;  // Null once that has let go of this.
  const Way way;
  Told told;           // Empty when nobody waits.
  bool fresh = true;   // The reactor does not have it yet.
  bool ended = false;  // The wait has; Complete() is to come.

 private:
  static status Perform(reactor_op* base) {
    Op& op = *static_cast<Op*>(base);
    if (op.fresh || !op.watch->Happened(op.way)) return not_done;
    op.ended = true;
    return done_and_exhausted;  // Do not call this again when it is started, but for a new event.
  }

  static void Complete(void* owner, asio::detail::operation* base,
                       const boost::system::error_code& /*closed*/, size_t /*bytes*/) {
    Op* const op = static_cast<Op*>(base);
    ReactorWatch* const watch = op->watch;
    // Last of all, as the watch may go with it.
    Told told = std::exchange(op->told, nullptr);
    if (watch != nullptr && owner != nullptr && op->way != Way::kError) {
      op->ended = false;
      watch->Start(*op);
    } else {
      if (watch != nullptr) watch->ops_[static_cast<size_t>(op->way)] = nullptr;
      delete op;
    }
    if (owner != nullptr && told) told(watch == nullptr);
  }
};

ReactorWatch::ReactorWatch(const asio::any_io_executor& executor, int socket,
                           std::function<bool()> attempt)
    : executor_(executor),
      reactor_(asio::use_service<asio::detail::reactor>(
          asio::query(executor, asio::execution::context))),
      socket_(socket),
      attempt_(std::move(attempt)) {
  if (reactor_.register_descriptor(socket_, data_) == 0) {
    Add(Way::kRead);
  } else {
    Close();
  }
}

bool ReactorWatch::waits(Way way) const {
  const Op* const op = ops_[static_cast<size_t>(way)];
  return op != nullptr && op->told;
}

void ReactorWatch::Wait(Way way, Told told) {
  SIMURGH_CHECK(!waits(way)) << "one wait at a time";
  if (socket_ < 0 || (way == Way::kWrite && std::exchange(room_, false))) {
    return Post(std::move(told));
  }
  if (ops_[static_cast<size_t>(way)] == nullptr) Add(way);
  ops_[static_cast<size_t>(way)]->told = std::move(told);
}

void ReactorWatch::Add(Way way) {
  Op* const op = new Op(this, way);
  ops_[static_cast<size_t>(way)] = op;
  Start(*op);
  op->fresh = false;
}

void ReactorWatch::Start(Op& op) {
  using asio::detail::reactor;
  constexpr int kTypes[] = {reactor::read_op, reactor::write_op, reactor::except_op};
  // News of errors come at any time, and only now one looks.
  const bool look_again = op.way == Way::kError;
  reactor_.start_op(kTypes[static_cast<size_t>(op.way)], socket_, data_, &op, true, !look_again);
}

bool ReactorWatch::Happened(Way way) {
  if (way == Way::kRead) return attempt_();
  if (waits(way)) return true;
  room_ = way == Way::kWrite;
  return false;
}

void ReactorWatch::Post(Told told) {
  asio::post(executor_, [told = std::move(told), closed = socket_ < 0]() mutable { told(closed); });
}

void ReactorWatch::End(Way way) {
  Op* const op = ops_[static_cast<size_t>(way)];
  if (op == nullptr || !op->told || op->ended) return;
  Post(std::exchange(op->told, nullptr));
}

void ReactorWatch::Close() {
  if (socket_ < 0) return;
  const int socket = std::exchange(socket_, -1);
  for (Op*& op : ops_) {
    if (op == nullptr) continue;
    op->watch = nullptr;
    if (op->told) Post(std::exchange(op->told, nullptr));
    op = nullptr;
  }
  reactor_.deregister_descriptor(socket, data_, true);
  (void)::close(socket);
  reactor_.cleanup_descriptor_data(data_);
}

}  // namespace simurgh::rpc
