#include "tests/unit/collective/rank_threads.h"

#include <csignal>
#include <thread>
#include <utility>

#include <boost/asio/use_future.hpp>

#include "base/check.h"

namespace simurgh::testing {

rpc::Hello HelloOfRank(uint32_t rank) {
  return {.cluster = "test", .role = "nn-worker", .index = rank};
}

RankServer::RankServer(const RankMesh::Options& mesh, const std::string& address,
                       const rpc::ServerOptions& options)
    : mesh_(std::make_unique<RankMesh>(thread_, mesh)) {
  thread_.RunAndWait([&] {
    server_ =
        std::make_unique<rpc::Server>(thread_.executor(), HelloOfRank(mesh.rank), options, nullptr);
    mesh_->Register(*server_);
    const Status listening = server_->Listen(address);
    SIMURGH_CHECK(listening.ok()) << listening.ToString();
    address_ = server_->address();
  });
}

RankServer::~RankServer() {
  if (server_ == nullptr) return;
  const auto drain = [&]() -> rpc::awaitable<void> {
    co_await server_->Drain(rpc::Clock::now() + std::chrono::seconds(5));
    server_.reset();
  };
  rpc::asio::co_spawn(thread_.executor(), drain, rpc::asio::use_future).get();
}

void RankServer::Cut() {
  thread_.RunAndWait([this] { server_.reset(); });
}

StatusOr<std::unique_ptr<Collective>> RankServer::Join(const std::vector<std::string>& addresses,
                                                       const rpc::ClientOptions& options) {
  std::unique_ptr<Collective> collective = NewRankCollective(*mesh_);
  SIMURGH_RETURN_IF_ERROR(mesh_->Start(kRun, [&](uint32_t rank) {
    return std::make_unique<rpc::Client>(thread_.executor(), addresses[rank],
                                         HelloOfRank(mesh_->rank()), options, nullptr);
  }));
  return collective;
}

std::vector<Status> RunRanks(uint32_t ranks, const RankBody& body, const RankOptions& options) {
  return RunRanks(
      ranks,
      [&body](std::unique_ptr<Collective>& collective, RankServer&) { return body(collective); },
      options);
}

std::vector<Status> RunRanks(uint32_t ranks, const ServerBody& body, const RankOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);
  std::vector<std::unique_ptr<RankServer>> servers;
  std::vector<std::string> addresses;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    servers.push_back(std::make_unique<RankServer>(
        RankMesh::Options{.rank = rank, .ranks = ranks, .timeout = options.timeout},
        rank < options.sharers ? "auto://127.0.0.1:0" : "127.0.0.1:0"));
    addresses.push_back(servers.back()->address());
  }
  std::vector<Status> results(ranks);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto collective = servers[rank]->Join(addresses);
      results[rank] = collective.ok() ? body(*collective, *servers[rank]) : collective.status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace simurgh::testing
