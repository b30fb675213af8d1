#include "services/api/peer_clients.h"

namespace simurgh {

PeerClients::PeerClients(Connect connect) : connect_(std::move(connect)) {}

PeerClients::Use PeerClients::shared() {
  if (shared_ == nullptr) shared_ = &Add();
  return {nullptr, shared_};
}

PeerClients::Use PeerClients::own() {
  if (free_.empty()) return {this, &Add()};
  rpc::Client* const client = free_.back();
  free_.pop_back();
  return {this, client};
}

void PeerClients::Stop() {
  stopped_ = true;
  for (const auto& client : clients_) client->Stop();
}

rpc::Client& PeerClients::Add() {
  clients_.push_back(connect_());
  if (stopped_) clients_.back()->Stop();
  return *clients_.back();
}

}  // namespace simurgh
