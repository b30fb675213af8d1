#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "services/api/peer_clients.h"
#include "services/api/row_server.h"

namespace simurgh {

// Calls the RowServer of another process.
//
// Threads: call from the clients' executor.
class RowClient : public RowServer {
 public:
  // name: for errors, "embedding-ps 1".
  RowClient(std::string name, std::unique_ptr<PeerClients> clients, uint64_t map_version);

  [[nodiscard]] rpc::awaitable<StatusOr<PullReport>> Pull(PullRowsCall call,
                                                          rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<PushReport>> Push(PushRowsCall call,
                                                          rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<Status> EndRun(StepId step_id, rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> SaveRows(SaveRowsCall call,
                                                                rpc::CallOptions options) override;
  [[nodiscard]] rpc::awaitable<StatusOr<SaveProgress>> RestoreRows(
      RestoreRowsCall call, rpc::CallOptions options) override;

 private:
  template <typename Method, typename Call>
  rpc::awaitable<StatusOr<SaveProgress>> CallFor(const Method& method, Call call,
                                                 rpc::CallOptions options);

  const std::string name_;
  const std::unique_ptr<PeerClients> clients_;
  const uint64_t map_version_;
};

}  // namespace simurgh
