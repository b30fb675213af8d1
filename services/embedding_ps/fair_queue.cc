#include "services/embedding_ps/fair_queue.h"

#include <algorithm>
#include <utility>

#include "simurgh/base/check.h"

namespace simurgh {

void FairQueue::Add(uint64_t client, std::unique_ptr<Task> task) {
  auto place = std::ranges::find(clients_, client, &Client::name);
  if (place == clients_.end()) place = clients_.insert(place, {.name = client, .tasks = {}});
  place->tasks.push_back(std::move(task));
}

void FairQueue::RunOne() {
  const auto next = std::ranges::find_if(
      clients_, [](const Client& client) { return client.tasks.front()->Ready(); });
  SIMURGH_CHECK(next != clients_.end());
  // Clients that were not ready keep their order.
  std::rotate(clients_.begin(), next, clients_.end());
  Client client = std::move(clients_.front());
  clients_.pop_front();
  if (client.tasks.front()->Advance()) client.tasks.pop_front();
  if (!client.tasks.empty()) clients_.push_back(std::move(client));
}

}  // namespace simurgh
