#include "services/embedding_ps/fair_queue.h"

#include <algorithm>
#include <utility>

namespace simurgh {

void FairQueue::Add(uint64_t client, std::unique_ptr<Task> task) {
  auto place = std::ranges::find(clients_, client, &Client::name);
  if (place == clients_.end()) place = clients_.insert(place, {.name = client, .tasks = {}});
  place->tasks.push_back(std::move(task));
}

bool FairQueue::RunOne() {
  const auto next =
      std::ranges::find_if(clients_, [](Client& client) { return client.tasks.front()->Ready(); });
  if (next == clients_.end()) return false;
  // Clients that were not ready keep their order.
  std::rotate(clients_.begin(), next, clients_.end());
  Client client = std::move(clients_.front());
  clients_.pop_front();
  if (client.tasks.front()->Advance()) client.tasks.pop_front();
  if (!client.tasks.empty()) clients_.push_back(std::move(client));
  return true;
}

}  // namespace simurgh
