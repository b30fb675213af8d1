#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

namespace simurgh {

// The requests that wait for one partition. Each client, in turn, gets one piece of its oldest
// request done: however many or large the requests of one are, another's next piece waits for one
// piece of each of those that have any. A client's requests are done in their order.
//
// Threads: one owner.
class FairQueue {
 public:
  // A request at work. It is let go when it is over.
  class Task {
   public:
    virtual ~Task() = default;
    // Whether it may go on. Of all tasks that have gone on before, at least one is ready.
    virtual bool Ready() const = 0;
    // Does a piece. Returns whether it was the last.
    virtual bool Advance() = 0;
  };

  void Add(uint64_t client, std::unique_ptr<Task> task);

  // Does the piece of the next client whose oldest task is ready. Requires !empty().
  void RunOne();

  bool empty() const { return clients_.empty(); }

 private:
  struct Client {
    uint64_t name;
    std::deque<std::unique_ptr<Task>> tasks;  // The oldest first; not empty.
  };

  std::deque<Client> clients_;  // The next one first.
};

}  // namespace simurgh
