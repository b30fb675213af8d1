#include "services/api/peer_clients.h"

#include <utility>

namespace simurgh {

PeerClients::PeerClients(rpc::asio::any_io_executor executor, std::string address, rpc::Hello hello,
                         rpc::ClientOptions options, rpc::Observer* observer)
    : executor_(std::move(executor)),
      address_(std::move(address)),
      hello_(std::move(hello)),
      options_(std::move(options)),
      observer_(observer) {}

PeerClients::Use PeerClients::shared() {
  if (shared_ == nullptr) shared_ = &Add();
  return Use(shared_);
}

PeerClients::Use PeerClients::dedicated() {
  if (free_.empty()) return {&Add(), {this}};
  rpc::Client* const client = free_.back();
  free_.pop_back();
  return {client, {this}};
}

std::unique_ptr<rpc::Client> PeerClients::separate() const {
  return std::make_unique<rpc::Client>(executor_, address_, hello_, options_, observer_);
}

void PeerClients::Stop() {
  stopped_ = true;
  for (const auto& client : clients_) client->Stop();
}

rpc::Client& PeerClients::Add() {
  clients_.push_back(separate());
  if (stopped_) clients_.back()->Stop();
  return *clients_.back();
}

}  // namespace simurgh
