#pragma once

// A parameter server of small tables and a client of it, in one process.

#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <unistd.h>

#include "absl/strings/str_cat.h"

#include "rpc/client.h"
#include "tests/unit/services/server_fixture.h"

namespace simurgh {

inline constexpr uint32_t kPartitions = 2;
inline constexpr uint64_t kIds = 150;  // Requests draw ids below this.
inline constexpr float kBound = 4.0F;

inline ClusterConfig SmallCluster() {
  ClusterConfig config;
  // A run that a damaged push ends does not report its end.
  config.embedding_ps = {.instances = {{}}, .partitions = kPartitions, .concurrent_runs = true};
  for (const uint32_t dim : {3, 8}) {
    TableConfig table;
    table.name = absl::StrCat("dim", dim);
    table.dim = dim;
    table.capacity_rows = 10'000;
    table.weight_bound = kBound;
    table.optimizer.kind = SparseOptimizerConfig::Kind::kSgd;
    config.tables.push_back(table);
  }
  return config;
}

struct Row {
  std::vector<float> weights;
  uint32_t use_count = 0;
  uint64_t recency = 0;

  bool operator==(const Row& other) const {
    return use_count == other.use_count && recency == other.recency &&
           weights.size() == other.weights.size() &&
           std::memcmp(weights.data(), other.weights.data(), weights.size() * sizeof(float)) == 0;
  }
};
inline std::ostream& operator<<(std::ostream& out, const Row& row) {
  out << "use count " << row.use_count << ", recency " << row.recency << ", weights";
  for (const float weight : row.weights) out << ' ' << std::hexfloat << weight;
  return out << std::defaultfloat;
}

using Key = std::tuple<size_t, uint32_t, uint64_t>;  // Partition, table, id.
using Rows = std::map<Key, Row>;

// A server and a client of it, both on one thread.
class Ends : public ServerFixture {
 public:
  explicit Ends(const std::string& transport)
      : ServerFixture(SmallCluster(), absl::StrCat(transport, ":///tmp/simurgh-row-requests-",
                                                   getpid(), "-", transport)) {
    io.RunAndWait([this] {
      client_ =
          std::make_unique<rpc::Client>(io.executor(), listener->address(),
                                        HelloOf("embedding-worker"), rpc::ClientOptions(), nullptr);
    });
  }
  ~Ends() {
    io.RunAndWait([this] { client_.reset(); });
  }

  StatusOr<rpc::IncomingMessage> Call(rpc::MethodId method, rpc::OutgoingMessage message) {
    return Start(client_->Call(method, std::move(message), rpc::AllocateAll(1),
                               rpc::Clock::now() + std::chrono::seconds(60)))
        .get();
  }

  // All rows as they are.
  Rows Snapshot() const {
    Rows all;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      for (uint32_t t = 0; t < 2; ++t) {
        rows->partition(p).table(t).ForEachRow([&](const RowContents& row) {
          all[{p, t, row.id}] = {
              {row.weights.begin(), row.weights.end()}, row.use_count, row.recency};
        });
      }
    }
    return all;
  }

 private:
  std::unique_ptr<rpc::Client> client_;
};

}  // namespace simurgh
