#include "services/embedding_ps/parameter_server.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <spdlog/spdlog.h>

#include "absl/strings/str_cat.h"

#include "services/api/row_codec.h"
#include "simurgh/base/numa.h"

namespace simurgh {
namespace {

// Of a memory budget, what tables leave to requests.
constexpr uint64_t kLargestReserve = uint64_t{256} << 20;

PartitionMemory MemoryOf(const ClusterConfig& config, size_t server, uint64_t partition) {
  const EmbeddingPsConfig& section = config.embedding_ps;
  PartitionMemory memory;
  if (!section.arena_directory.empty()) {
    memory.file = absl::StrCat(section.arena_directory, "/", config.name, "-", server, "-",
                               partition, ".arena");
  }
  if (!section.numa_nodes.empty()) {
    memory.numa_node = section.numa_nodes[partition % section.numa_nodes.size()];
  }
  return memory;
}

// Splits a call's ids and rows by partition: visit(partition, group index, first id, id count,
// first float).
template <typename Visitor>
void ForEachPiece(std::span<const RowGroup> groups, const Visitor& visit) {
  size_t id = 0;
  size_t offset = 0;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (uint32_t p = 0; p < groups[g].counts.size(); ++p) {
      const size_t count = groups[g].counts[p];
      if (count > 0) visit(p, g, id, count, offset);
      id += count;
      offset += count * groups[g].dim;
    }
  }
}

std::vector<std::vector<PullGroup>> SplitByPartition(const PullRowsCall& call, size_t partitions) {
  std::vector<std::vector<PullGroup>> pieces(partitions);
  ForEachPiece(call.groups, [&](uint32_t p, size_t g, size_t id, size_t count, size_t offset) {
    const RowGroup& group = call.groups[g];
    pieces[p].push_back(
        {group.table, call.ids.subspan(id, count), {call.rows.data() + offset, count, group.dim}});
  });
  return pieces;
}

std::vector<std::vector<PushGroup>> SplitByPartition(const PushRowsCall& call, size_t partitions) {
  std::vector<std::vector<PushGroup>> pieces(partitions);
  ForEachPiece(call.groups, [&](uint32_t p, size_t g, size_t id, size_t count, size_t offset) {
    const RowGroup& group = call.groups[g];
    pieces[p].push_back({group.table,
                         call.learning_rates[g],
                         call.ids.subspan(id, count),
                         {call.gradients.data() + offset, count, group.dim}});
  });
  return pieces;
}

}  // namespace

ParameterServer::ParameterServer(ServerMetrics& metrics, bool reproducible)
    : metrics_(metrics), reproducible_(reproducible) {}

void ParameterServer::WarnOfEviction() {
  if (!reproducible_ || warned_) return;
  warned_ = true;
  spdlog::warn(
      "a table is full and rows are evicted: from here on a reproducible run repeats itself only "
      "with the same number of servers and partitions, and not at all at a memory budget; raise "
      "the capacity");
}

ParameterServer::~ParameterServer() = default;

StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Create(const ClusterConfig& config,
                                                                   size_t index,
                                                                   ServerMetrics& metrics) {
  std::unique_ptr<ParameterServer> server(
      new ParameterServer(metrics, config.training.reproducible));
  const uint64_t partitions = config.embedding_ps.partitions;
  const uint64_t shares = partitions * config.embedding_ps.instances.size();
  std::vector<TableConfig> tables = config.tables;
  for (TableConfig& table : tables) {
    if (table.capacity_bytes > 0) table.capacity_rows = Table::RowsIn(table, table.capacity_bytes);
    table.capacity_rows = (table.capacity_rows + shares - 1) / shares;
  }
  if (const uint64_t limit = config.embedding_ps.memory_budget; limit > 0) {
    server->budget_ = std::make_unique<MemoryBudget>(limit, std::min(limit / 8, kLargestReserve));
  }
  for (uint64_t p = 0; p < partitions; ++p) {
    const PartitionMemory memory = MemoryOf(config, index, p);
    SIMURGH_ASSIGN_OR_RETURN(auto partition,
                             Partition::Create(tables, config.seed, server->budget_.get(), memory));
    if (const std::string problem = partition->HugePageProblem(); p == 0 && !problem.empty()) {
      spdlog::warn("rows lie in pages of 4 KiB, and pulls and pushes are slower for it: {}",
                   problem);
    }
    server->shards_.push_back(
        std::make_unique<Shard>(std::move(partition), absl::StrCat("partition-", p)));
    if (!memory.numa_node) continue;
    Status pinned;
    server->shards_.back()->thread.RunAndWait([&] { pinned = PinThreadToNode(*memory.numa_node); });
    SIMURGH_RETURN_IF_ERROR(pinned);
  }
  return server;
}

template <typename Task>
rpc::awaitable<Status> ParameterServer::OnPartitions(std::vector<size_t> which, const Task& task) {
  const auto run = [&](size_t p) -> rpc::awaitable<Status> {
    co_return co_await rpc::RunOn(shards_[p]->thread.executor(),
                                  [&task, p]() -> Status { return task(p); });
  };
  std::vector<rpc::awaitable<Status>> tasks;
  for (const size_t p : which) tasks.push_back(run(p));
  co_return co_await rpc::WhenAll(std::move(tasks));
}

rpc::awaitable<StatusOr<PullReport>> ParameterServer::Pull(PullRowsCall call,
                                                           rpc::CallOptions options) {
  auto pieces = SplitByPartition(call, shards_.size());
  std::vector<size_t> which;
  for (size_t p = 0; p < shards_.size(); ++p) {
    if (call.purpose == PullPurpose::kTrain || !pieces[p].empty()) which.push_back(p);
  }
  std::vector<PullReport> reports(shards_.size());
  const auto pull = [&](size_t p) -> Status {
    Partition& partition = *shards_[p]->partition;
    StatusOr<PullReport> report =
        partition.Pull(call.purpose, call.position, call.acknowledged_steps, pieces[p]);
    if (absl::IsFailedPrecondition(report.status()) && fatal_ && !failed_.exchange(true)) {
      fatal_(report.status());
    }
    SIMURGH_ASSIGN_OR_RETURN(reports[p], std::move(report));
    const bool training = call.purpose == PullPurpose::kTrain;
    const std::span<const PullGroup> groups = training ? pieces[p] : std::span<const PullGroup>();
    metrics_.OnPull(p, partition, groups, reports[p]);
    return absl::OkStatus();
  };
  SIMURGH_CO_RETURN_IF_ERROR(co_await OnPartitions(std::move(which), pull));
  PullReport total;
  for (const PullReport& report : reports) {
    total.found += report.found;
    total.created += report.created;
    total.unseen += report.unseen;
    total.refused += report.refused;
    total.evicted += report.evicted;
    total.turned_away += report.turned_away;
  }
  if (total.crowded_out > 0) WarnOfEviction();
  co_return total;
}

rpc::awaitable<StatusOr<PushReport>> ParameterServer::Push(PushRowsCall call,
                                                           rpc::CallOptions options) {
  auto pieces = SplitByPartition(call, shards_.size());
  std::vector<size_t> all(shards_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<PushReport> reports(shards_.size());
  const auto push = [&](size_t p) -> Status {
    SIMURGH_ASSIGN_OR_RETURN(
        reports[p], shards_[p]->partition->Push(call.position, call.part, call.parts, pieces[p]));
    metrics_.OnPush(reports[p]);
    return absl::OkStatus();
  };
  SIMURGH_CO_RETURN_IF_ERROR(co_await OnPartitions(std::move(all), push));
  PushReport total{.repeated = true};
  for (const PushReport& report : reports) {
    // A push that a retry completes is new where it had not arrived.
    total.repeated = total.repeated && report.repeated;
    total.updated += report.updated;
    total.missing += report.missing;
  }
  co_return total;
}

}  // namespace simurgh
