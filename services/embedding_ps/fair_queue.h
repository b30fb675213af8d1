#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

namespace simurgh {

// The queued requests of one partition. Clients are served round robin, one piece of the oldest
// request each. The next piece of a client waits for at most one piece of every other client. The
// requests of a client are processed in order.
//
// Threads: one owner.
class FairQueue {
 public:
  // A request in progress; destroyed when it is complete.
  class Task {
   public:
    virtual ~Task() = default;
    // Returns whether the task can proceed. May reserve what the next piece needs: if true,
    // Advance() follows.
    virtual bool Ready() = 0;
    // Processes a piece. Returns whether it was the last.
    virtual bool Advance() = 0;
  };

  void Add(uint64_t client, std::unique_ptr<Task> task) {
    auto place = std::ranges::find(clients_, client, &Client::name);
    if (place == clients_.end()) place = clients_.insert(place, {.name = client, .tasks = {}});
    place->tasks.push_back(std::move(task));
  }

  // Processes a piece of the next client whose oldest task is ready. Returns false if there is
  // none.
  bool RunOne() {
    const auto next = std::ranges::find_if(
        clients_, [](Client& client) { return client.tasks.front()->Ready(); });
    if (next == clients_.end()) return false;
    // Clients that were not ready keep their order.
    std::rotate(clients_.begin(), next, clients_.end());
    Client client = std::move(clients_.front());
    clients_.pop_front();
    if (client.tasks.front()->Advance()) client.tasks.pop_front();
    if (!client.tasks.empty()) clients_.push_back(std::move(client));
    return true;
  }

  bool empty() const { return clients_.empty(); }

 private:
  struct Client {
    uint64_t name;
    std::deque<std::unique_ptr<Task>> tasks;  // The oldest first; not empty.
  };

  std::deque<Client> clients_;  // The next one first.
};

}  // namespace simurgh
