#pragma once

#include <memory>
#include <string>
#include <vector>

#include "rpc/client.h"

namespace simurgh {

// The connections to one peer.
//
// Some calls complete only after another call: a push after those of other ranks, a submit to a
// full buffer after a push that frees space. The requests of a connection share a window
// (rpc.peer_memory_bytes), so the second call could wait for the window of the first. A call of
// this kind therefore gets a dedicated connection. Later calls reuse it, so the number of
// connections is the maximum number of concurrent calls of this kind.
//
// Threads: the clients'. Lifetime: outlive every call.
class PeerClients {
 public:
  // The client of one call. A dedicated one returns to its owner.
  struct Return {
    PeerClients* owner = nullptr;
    void operator()(rpc::Client* client) const {
      if (owner != nullptr) owner->free_.push_back(client);
    }
  };
  using Use = std::unique_ptr<rpc::Client, Return>;

  // Arguments: see rpc::Client.
  PeerClients(rpc::asio::any_io_executor executor, std::string address, rpc::Hello hello,
              rpc::ClientOptions options, rpc::Observer* observer);

  // For calls that do not wait for other calls.
  Use shared();
  // For calls that may wait for other calls.
  Use dedicated();
  // Its own connection, which Stop() does not end. Destroy it on the executor's thread.
  std::unique_ptr<rpc::Client> separate() const;

  // Fails pending and later calls with CANCELLED.
  void Stop();

 private:
  rpc::Client& Add();

  const rpc::asio::any_io_executor executor_;
  const std::string address_;
  const rpc::Hello hello_;
  const rpc::ClientOptions options_;
  rpc::Observer* const observer_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<rpc::Client>> clients_;
  rpc::Client* shared_ = nullptr;   // Created by the first use.
  std::vector<rpc::Client*> free_;  // Idle dedicated clients.
};

}  // namespace simurgh
