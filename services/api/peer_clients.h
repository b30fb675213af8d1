#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rpc/client.h"

namespace simurgh {

// The connections to one peer.
//
// A peer answers some calls only after another call: a push after the other ranks' pushes, a
// submit to a full buffer after a push that frees space. The requests of a connection share a
// window (rpc.peer_memory_bytes), so on one connection such calls could deadlock. Each therefore
// uses a separate connection, which always admits one message. Connections are reused; their number
// is the maximum of such calls in flight.
//
// Threads: the clients'. Lifetime: outlive every call.
class PeerClients {
 public:
  // A client for one call.
  class Use {
   public:
    Use(Use&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), client_(other.client_) {}
    Use& operator=(Use&&) = delete;
    ~Use() {
      if (owner_ != nullptr) owner_->free_.push_back(client_);
    }

    rpc::Client& operator*() const { return *client_; }

   private:
    friend class PeerClients;
    Use(PeerClients* owner, rpc::Client* client) : owner_(owner), client_(client) {}

    PeerClients* owner_;  // Null: others use the client, too.
    rpc::Client* client_;
  };

  // Arguments: as rpc::Client.
  PeerClients(rpc::asio::any_io_executor executor, std::string address, rpc::Hello hello,
              rpc::ClientOptions options, rpc::Observer* observer);

  // For a call that does not depend on another.
  Use shared();
  // For a call that may wait for another.
  Use own();

  // Fails every call, present and future, with CANCELLED.
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
  rpc::Client* shared_ = nullptr;   // From its first use on.
  std::vector<rpc::Client*> free_;  // Of one call, which has ended.
};

}  // namespace simurgh
