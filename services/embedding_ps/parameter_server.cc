#include "services/embedding_ps/parameter_server.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/log.h"
#include "base/step_id.h"
#include "base/thread.h"
#include "embedding/bucket_map.h"
#include "rpc/server.h"
#include "services/embedding_ps/row_loader.h"
#include "services/embedding_ps/row_task.h"
#include "services/embedding_ps/step_barrier.h"
#include "table/partition.h"
#include "telemetry/timeline.h"

namespace simurgh {
namespace {

// Largest part of a memory budget that is reserved for requests.
constexpr uint64_t kMaxReserve = uint64_t{1} << 30;

uint64_t ReserveOf(uint64_t limit_bytes) { return std::min(limit_bytes / 8, kMaxReserve); }

// Requires that all tables have been created and are empty.
Status CheckBudget(uint64_t limit_bytes, uint64_t kept_free) {
  const uint64_t resident = ResidentBytes();
  if (limit_bytes == 0 || resident + kept_free < limit_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "embedding_ps.memory_budget: ", limit_bytes,
      " bytes leave no space for rows: an empty server takes ", resident, " and reserves ",
      kept_free, " for requests and changes; raise it, or use 0 for no limit"));
}

PartitionMemory MemoryOf(const EmbeddingPsConfig& config, uint64_t partition) {
  PartitionMemory memory{.arena_directory = config.arena_directory,
                         .numa_node = {},
                         .cold_directory = config.cold_directory};
  if (!config.numa_nodes.empty()) {
    memory.numa_node = config.numa_nodes[partition % config.numa_nodes.size()];
  }
  return memory;
}

// The most that tables need to note their changes between checkpoints.
uint64_t BytesOfChanges(const ClusterConfig& config) {
  if (config.checkpoint.directory.empty() || config.checkpoint.full_every == 1) return 0;
  uint64_t capacity = 0;
  uint64_t rows_in_budget = 0;
  for (const TableConfig& table : SharesOf(config)) {
    capacity += table.capacity_rows * config.embedding_ps.partitions;
    rows_in_budget =
        std::max(rows_in_budget, Table::RowsIn(table, config.embedding_ps.memory_budget));
  }
  return kBytesPerChangedRow * std::min(capacity, rows_in_budget);
}

// The groups of each partition, made by group(run, ids).
template <typename Group, typename Make>
std::vector<std::vector<Group>> SplitByPartition(const api::ParsedRows& rows, size_t partitions,
                                                 std::span<const uint64_t> ids, size_t bytes,
                                                 const Make& group) {
  SIMURGH_CHECK_EQ(ids.size(), rows.payload().ids);
  SIMURGH_CHECK_EQ(bytes, rows.payload().bytes);
  std::vector<std::vector<Group>> shares(partitions);
  for (const api::RowRun& run : rows.runs()) {
    shares[run.partition].push_back(group(run, ids.subspan(run.first_id, run.count)));
  }
  return shares;
}

api::RowShape ShapeOf(const ClusterConfig& config) {
  api::RowShape shape{.dims = {}, .partitions = config.embedding_ps.partitions};
  for (const TableConfig& table : config.tables) shape.dims.push_back(table.dim);
  return shape;
}

// A partition's share of a request. Calls `end(status, work)` on the partition's thread and then
// touches nothing of the request.
template <typename Work, typename End>
class PartitionTask : public FairQueue::Task {
 public:
  PartitionTask(const char* name, uint64_t step, uint64_t trace, Work work, End end,
                ServerMetrics& metrics)
      : name_(name),
        step_(step),
        trace_(trace),
        work_(std::move(work)),
        end_(std::move(end)),
        metrics_(metrics) {
    metrics_.OnQueued();
  }

  bool Ready() override { return work_.Ready(); }

  bool Advance() override {
    if (queued_) metrics_.OnStart(std::chrono::steady_clock::now() - *std::exchange(queued_, {}));
    StatusOr<bool> over = AdvancePiece();
    if (over.ok() && !*over) return false;
    metrics_.OnEnded();
    end_(std::move(over).status(), work_);
    return true;
  }

 private:
  // Advances the work. The span ends before `end_` is called, whose caller may answer the call at
  // once: so it lies within the call's span.
  StatusOr<bool> AdvancePiece() {
    const TimelineSpan span(name_, step_, trace_);
    return work_.Advance(ParameterServer::kIdsPerTurn);
  }

  const char* const name_;  // Name of the span of each piece.
  const uint64_t step_;
  const uint64_t trace_;
  Work work_;
  End end_;
  ServerMetrics& metrics_;
  // Time of queueing; reset at the first piece.
  std::optional<std::chrono::steady_clock::time_point> queued_ = std::chrono::steady_clock::now();
};

template <typename Work, typename End>
std::unique_ptr<FairQueue::Task> MakeTask(const char* name, uint64_t step, uint64_t trace,
                                          Work work, End end, ServerMetrics& metrics) {
  return std::make_unique<PartitionTask<Work, End>>(name, step, trace, std::move(work),
                                                    std::move(end), metrics);
}

// A pull that may await pushes. It gives up at its deadline, and when the server stops.
class AwaitingPull {
 public:
  AwaitingPull(PullWork work, rpc::Clock::time_point deadline, const bool& closed)
      : work_(std::move(work)), deadline_(deadline), closed_(closed) {}

  bool Ready() { return work_.Ready(ParameterServer::kIdsPerTurn) || GivesUp(); }

  StatusOr<bool> Advance(size_t max_ids) {
    if (!work_.awaits_push()) return work_.Advance(max_ids);
    return closed_ ? absl::AbortedError("rows: the server is stopping")
                   : absl::DeadlineExceededError("rows: timeout while waiting for a push");
  }

  const PullReport& report() const { return work_.report(); }
  bool stopped_by_full_table() const { return work_.stopped_by_full_table(); }
  uint64_t waits() const { return work_.waits(); }
  std::optional<PullWork::Clock::duration> cold_wait() const { return work_.cold_wait(); }

 private:
  bool GivesUp() const {
    return work_.awaits_push() && (closed_ || rpc::Clock::now() >= deadline_);
  }

  PullWork work_;
  const rpc::Clock::time_point deadline_;
  const bool& closed_;
};

// Errors: CANCELLED once the load is to stop.
Status ReportLoad(RowTask::Progress& progress, uint64_t rows, uint64_t all_rows) {
  progress.rows = rows;
  progress.all_rows = all_rows;
  return progress.stopped ? absl::CancelledError("restore rows: stopped before its end")
                          : absl::OkStatus();
}

}  // namespace

std::vector<TableConfig> SharesOf(const ClusterConfig& config) {
  const uint64_t shares =
      uint64_t{config.embedding_ps.partitions} * config.embedding_ps.instances.size();
  std::vector<TableConfig> tables = config.tables;
  for (TableConfig& table : tables) {
    if (table.capacity_bytes > 0) table.capacity_rows = Table::RowsIn(table, table.capacity_bytes);
    table.capacity_rows = (table.capacity_rows + shares - 1) / shares;
    table.memory_rows = (table.memory_rows + shares - 1) / shares;
  }
  return tables;
}

uint64_t KeptFree(const ClusterConfig& config) {
  return ReserveOf(config.embedding_ps.memory_budget) + BytesOfChanges(config);
}

ParameterServer::ParameterServer(const ClusterConfig& config, ServerMetrics& metrics,
                                 uint32_t server, ServerEnvironment environment)
    : environment_(std::move(environment)),
      metrics_(metrics),
      tables_(SharesOf(config)),
      shape_(ShapeOf(config)),
      map_(MapOf(config)),
      server_(server),
      checkpoint_(config.checkpoint),
      ranks_(static_cast<uint32_t>(std::max<size_t>(config.nn_worker.instances.size(), 1))),
      warns_of_eviction_(config.training.reproducible ||
                         config.training.mode == TrainingConfig::Mode::kSync),
      has_cold_rows_(!config.embedding_ps.cold_directory.empty()),
      copy_memory_(config.checkpoint.memory),
      threads_(Threads()),
      restoring_(environment_.start_load) {}

uint64_t PeerBytes(uint64_t memory_budget) {
  const uint64_t most = rpc::ServerOptions().peer_bytes;
  return memory_budget == 0 ? most : std::min(most, ReserveOf(memory_budget) / 2);
}

ParameterServer::~ParameterServer() = default;

Status ParameterServer::CheckConfig(const ClusterConfig& config) {
  constexpr double kAddresses = 0x1p47;  // Address space of a process on x86-64.
  double reserved = 0;
  for (const TableConfig& table : SharesOf(config)) {
    SIMURGH_RETURN_IF_ERROR(Table::Validate(table));
    reserved += static_cast<double>(Table::ReservationFor(table));
  }
  reserved *= config.embedding_ps.partitions;
  if (reserved < kAddresses) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tables: an embedding-ps needs addresses for ", std::ceil(reserved / 0x1p40),
                   " TiB, and a process has less than 128; lower capacity_rows or add servers"));
}

StatusOr<std::unique_ptr<ParameterServer>> ParameterServer::Create(const ClusterConfig& config,
                                                                   ServerMetrics& metrics,
                                                                   uint32_t index,
                                                                   ServerEnvironment environment) {
  SIMURGH_RETURN_IF_ERROR(CheckConfig(config));
  std::unique_ptr<ParameterServer> server(
      new ParameterServer(config, metrics, index, std::move(environment)));
  const uint64_t partitions = config.embedding_ps.partitions;
  const uint64_t limit = config.embedding_ps.memory_budget;
  const uint64_t kept_free = KeptFree(config);
  // The index of a cold row takes 11 bytes: a fifth of the memory for several times as many rows.
  const uint64_t kept_for_cold = config.embedding_ps.cold_directory.empty() ? 0 : limit / 5;
  if (limit > 0) {
    server->budget_ =
        std::make_unique<MemoryBudget>(limit, kept_free, ResidentBytes, kept_for_cold);
  }
  for (uint64_t p = 0; p < partitions; ++p) {
    PartitionMemory memory = MemoryOf(config.embedding_ps, p);
    memory.make_cold_disk = server->environment_.make_cold_disk;
    SIMURGH_ASSIGN_OR_RETURN(auto partition, Partition::Create(server->tables_, config.seed,
                                                               server->budget_.get(), memory));
    if (const std::string problem = partition->HugePageProblem(); p == 0 && !problem.empty()) {
      spdlog::warn("no huge pages: rows use 4 KiB pages, which slows pulls and pushes; {}",
                   problem);
    }
    if (const std::string method = partition->ColdMethod(); p == 0 && !method.empty()) {
      spdlog::info("rows without room in memory go to the disk: cold_directory={} method='{}'",
                   memory.cold_directory, method);
    }
    server->shards_.push_back(std::make_unique<Shard>(
        std::move(partition), server->environment_.start_partition(absl::StrCat("partition-", p)),
        metrics));
    if (!memory.numa_node) continue;
    Status pinned;
    server->shards_.back()->thread->Run([&] { pinned = PinThreadToNode(*memory.numa_node); }).get();
    SIMURGH_RETURN_IF_ERROR(pinned);
  }
  SIMURGH_RETURN_IF_ERROR(CheckBudget(limit, kept_free + kept_for_cold));
  server->threads_.count = static_cast<uint32_t>(partitions);
  server->saver_ = std::make_unique<RowSaver>(config.checkpoint, server->tables_, server->threads_,
                                              server->copy_memory_, metrics, server->environment_);
  return server;
}

PartitionThreads ParameterServer::Threads() {
  const auto on_one = [this](uint32_t p, std::function<void(Partition&)> use) {
    Shard& shard = *shards_[p];
    return shard.thread->Run([&shard, use = std::move(use)] {
      use(*shard.partition);
      shard.Resume();
    });
  };
  const auto on_all = [this](absl::FunctionRef<void(uint32_t, Partition&)> use) {
    std::vector<std::future<void>> ends;
    for (uint32_t p = 0; p < shards_.size(); ++p) {
      ends.push_back(threads_.on_one(p, [use, p](Partition& own) { use(p, own); }));
    }
    for (std::future<void>& end : ends) end.get();
  };
  return {.count = 0, .on_one = on_one, .on_all = on_all};
}

void ParameterServer::Shard::Add(uint64_t client, std::unique_ptr<FairQueue::Task> task) {
  rpc::asio::post(thread->executor(), [this, client, task = std::move(task)]() mutable {
    queue.Add(client, std::move(task));
    if (!running) Run();
  });
}

void ParameterServer::Shard::Hold(HeldPush push) {
  rpc::asio::post(thread->executor(), [this, push = std::move(push)]() mutable {
    for (std::vector<HeldPush>& pushes : barrier.Add(std::move(push))) Begin(std::move(pushes));
    if (!running) Run();
  });
}

// All barrier pushes count as one client, because only then are they processed in order. They are
// answered together: otherwise a rank could pull rows that lack the gradients of later ranks.
void ParameterServer::Shard::Begin(std::vector<HeldPush> pushes) {
  struct Ended {
    std::function<void(const Status&, const PushReport&)> notify;
    Status status;
    PushReport report;
  };
  const auto client = reinterpret_cast<uintptr_t>(&barrier);
  std::shared_ptr<const ReducedPush> sum;
  if (pushes.size() > 1 && pushes[0].step_id.order == PushOrder::kSum) {
    sum = ReducePushes(pushes);
  }
  const auto step = std::make_shared<std::vector<Ended>>();
  for (size_t i = 0; i < pushes.size(); ++i) {
    HeldPush& push = pushes[i];
    // The first rank's push carries the sum, the others are empty.
    const std::span<const PushGroup> summed =
        sum == nullptr || i > 0 ? std::span<const PushGroup>() : std::span(sum->groups);
    PushWork work(*partition, push.step_id, sum == nullptr ? push.groups : summed);
    const auto end = [sum, step, count = pushes.size(), notify = std::move(push.end)](
                         Status status, const PushWork& done) {
      step->push_back({notify, std::move(status), done.report()});
      if (step->size() < count) return;
      for (const Ended& one : *step) one.notify(one.status, one.report);
    };
    queue.Add(client,
              MakeTask("push rows", push.step_id.step, push.trace, std::move(work), end, metrics));
  }
}

// Posts itself for each piece, so that new requests are queued in between.
void ParameterServer::Shard::Run() {
  running = !queue.empty() && queue.RunOne() && !queue.empty();
  if (running) rpc::asio::post(thread->executor(), [this] { Run(); });
}

void ParameterServer::Shard::Resume() {
  if (running || queue.empty()) return;
  running = true;
  rpc::asio::post(thread->executor(), [this] { Run(); });
}

rpc::awaitable<StatusOr<PullReport>> ParameterServer::Pull(PullRowsCall call,
                                                           rpc::CallOptions options) {
  SIMURGH_CO_ASSIGN_OR_RETURN(api::ParsedRows rows,
                              api::ParsedRows::Parse(call.groups, {}, shape_));
  SIMURGH_CO_RETURN_IF_ERROR(rows.CheckLengths(call.ids.size(), call.rows.size()));
  co_return co_await Pull(std::move(call), std::move(rows), options);
}

rpc::awaitable<StatusOr<PullReport>> ParameterServer::Pull(PullRowsCall call, api::ParsedRows rows,
                                                           rpc::CallOptions options) {
  const bool training = call.mode == LookupMode::kTrain;
  if (training) rows_of_ = call.step_id.run;
  const auto group = [&call](const api::RowRun& run, std::span<const uint64_t> ids) -> PullGroup {
    return {run.table, ids, {call.rows.data() + run.first_byte, run.precision, run.count, run.dim}};
  };
  const auto shares =
      SplitByPartition<PullGroup>(rows, shards_.size(), call.ids, call.rows.size(), group);
  std::vector<size_t> which;
  for (size_t p = 0; p < shards_.size(); ++p) {
    if (training || !shares[p].empty()) which.push_back(p);
  }
  if (which.empty()) co_return PullReport();
  std::vector<StatusOr<PullReport>> reports(shards_.size(), PullReport());
  // The push that a pull awaits must not queue behind it.
  const bool awaits = call.needed.awaited_steps > 0;
  const uint64_t client = awaits ? reinterpret_cast<uintptr_t>(&reports) : call.client;
  const auto start = [&](const std::shared_ptr<Latch>& latch) {
    for (const size_t p : which) {
      Partition& partition = *shards_[p]->partition;
      AwaitingPull work(PullWork(partition, call.mode, call.step_id, call.needed, shares[p]),
                        options.deadline, shards_[p]->closed);
      const auto end = [this, p, training, &shares, &reports, latch](Status status,
                                                                     const AwaitingPull& done) {
        metrics_.OnPullWaits(done.waits());
        if (done.cold_wait()) metrics_.OnColdWait(*done.cold_wait());
        if (done.stopped_by_full_table() && fatal_ && !failed_.exchange(true)) fatal_(status);
        if (status.ok()) {
          reports[p] = done.report();
          metrics_.OnPull(p, *shards_[p]->partition,
                          training ? shares[p] : std::span<const PullGroup>(), done.report());
        } else {
          reports[p] = std::move(status);
        }
        latch->Down();
      };
      shards_[p]->Add(client, MakeTask("pull rows", call.step_id.step, options.trace.trace_id,
                                       std::move(work), end, metrics_));
    }
  };
  rpc::asio::steady_timer timeout(co_await rpc::asio::this_coro::executor, options.deadline);
  if (awaits) {
    timeout.async_wait([this](const boost::system::error_code& error) {
      if (!error) ResumeAll();
    });
  }
  co_await AwaitLatch(which.size(), start);
  timeout.cancel();
  PullReport total;
  for (const StatusOr<PullReport>& report : reports) {
    if (!report.ok()) co_return report.status();
    total += *report;
  }
  if (total.evicted_for_space > 0 && std::exchange(warns_of_eviction_, false)) {
    spdlog::warn(
        "a full table evicts rows: results now depend on the number of servers and partitions. "
        "Under a memory budget they differ between runs; raise the capacity");
  }
  co_return total;
}

void ParameterServer::ReadAhead(const api::ParsedRows& rows, std::span<const uint64_t> ids,
                                std::shared_ptr<const void> owner) {
  if (!has_cold_rows_) return;
  std::vector<std::vector<IdGroup>> shares(shards_.size());
  for (const api::RowRun& run : rows.runs()) {
    shares[run.partition].push_back({run.table, ids.subspan(run.first_id, run.count)});
  }
  for (size_t p = 0; p < shards_.size(); ++p) {
    if (shares[p].empty()) continue;
    Shard& shard = *shards_[p];
    rpc::asio::post(shard.thread->executor(), [&shard, groups = std::move(shares[p]), owner] {
      shard.partition->ReadAhead(groups);
    });
  }
}

rpc::awaitable<Status> ParameterServer::ReadAhead(ReadRowsAheadCall call,
                                                  rpc::CallOptions /*options*/) {
  SIMURGH_CO_ASSIGN_OR_RETURN(const api::ParsedRows rows,
                              api::ParsedRows::Parse(call.groups, {}, shape_));
  SIMURGH_CO_RETURN_IF_ERROR(rows.CheckLengths(call.ids.size(), rows.payload().bytes));
  ReadAhead(rows, call.ids, std::move(call.owner));
  co_return absl::OkStatus();
}

rpc::awaitable<StatusOr<PushReport>> ParameterServer::Push(PushRowsCall call,
                                                           rpc::CallOptions options) {
  if (call.learning_rates.size() != call.groups.size()) {
    co_return absl::InvalidArgumentError("rows: a push needs a learning rate for each group");
  }
  SIMURGH_CO_RETURN_IF_ERROR(api::CheckPushOrder(call.step_id));
  SIMURGH_CO_ASSIGN_OR_RETURN(api::ParsedRows rows,
                              api::ParsedRows::Parse(call.groups, call.learning_rates, shape_));
  SIMURGH_CO_RETURN_IF_ERROR(rows.CheckLengths(call.ids.size(), call.gradients.size()));
  co_return co_await Push(std::move(call), std::move(rows), options);
}

rpc::awaitable<StatusOr<PushReport>> ParameterServer::Push(PushRowsCall call, api::ParsedRows rows,
                                                           rpc::CallOptions options) {
  const auto group = [&call](const api::RowRun& run, std::span<const uint64_t> ids) -> PushGroup {
    return {run.table,
            run.learning_rate,
            ids,
            {call.gradients.data() + run.first_byte, run.precision, run.count, run.dim}};
  };
  const auto shares =
      SplitByPartition<PushGroup>(rows, shards_.size(), call.ids, call.gradients.size(), group);
  std::vector<StatusOr<PushReport>> reports(shards_.size(), PushReport());
  const StepId& step_id = call.step_id;
  const bool held = step_id.waits_for_ranks();
  const auto start = [&](const std::shared_ptr<Latch>& latch) {
    for (size_t p = 0; p < shards_.size(); ++p) {
      const auto end = [this, p, &reports, latch](Status status, const PushReport& report) {
        if (status.ok()) {
          reports[p] = report;
          metrics_.OnPush(p, *shards_[p]->partition, report);
        } else {
          reports[p] = std::move(status);
        }
        latch->Down();
      };
      if (held) {
        shards_[p]->Hold({step_id, shares[p], end, options.trace.trace_id});
      } else {
        PushWork work(*shards_[p]->partition, step_id, shares[p]);
        const auto end_work = [end](Status status, const PushWork& done) {
          end(std::move(status), done.report());
        };
        shards_[p]->Add(call.client, MakeTask("push rows", step_id.step, options.trace.trace_id,
                                              std::move(work), end_work, metrics_));
      }
    }
  };
  rpc::asio::steady_timer timeout(co_await rpc::asio::this_coro::executor, options.deadline);
  if (held) {
    timeout.async_wait([this, step_id](const boost::system::error_code& error) {
      if (error) return;
      for (const auto& shard : shards_) {
        rpc::asio::post(shard->thread->executor(),
                        [shard = shard.get(), step_id] { shard->barrier.TimeOut(step_id); });
      }
    });
  }
  co_await AwaitLatch(shards_.size(), start);
  timeout.cancel();
  PushReport total{.repeated = true};
  for (const StatusOr<PushReport>& report : reports) {
    if (!report.ok()) co_return report.status();
    // A retry is new at partitions that the first attempt did not reach.
    total.repeated = total.repeated && report->repeated;
    total += *report;
  }
  if (!total.all_finite()) LogNotFinite(step_id, total);
  co_return total;
}

void ParameterServer::LogNotFinite(const StepId& step_id, const PushReport& report) {
  const auto suppressed = not_finite_log_.Admit(LogLimiter::Clock::now());
  if (!suppressed) return;
  spdlog::warn(
      "a push has numbers that are not finite: table={} gradients_dropped={} rows_affected={} "
      "run={:016x} rank={} step={} suppressed={}",
      tables_[report.not_finite_table].name, report.gradients_not_finite, report.rows_not_finite,
      step_id.run, step_id.rank, step_id.step, *suppressed);
}

rpc::awaitable<StatusOr<SaveProgress>> ParameterServer::SaveRows(SaveRowsCall call,
                                                                 rpc::CallOptions /*options*/) {
  co_return saver_->Save(call);
}

Status ParameterServer::LoadRows(const Checkpoint& checkpoint, uint32_t server,
                                 LoadProgress progress) {
  return simurgh::LoadRows(checkpoint, {tables_, map_, server, threads_}, progress);
}

Status ParameterServer::Clear(uint64_t run) {
  for (uint32_t p = 0; p < shards_.size(); ++p) {
    Status cleared;
    threads_
        .on_one(p,
                [&](Partition& partition) {
                  cleared = partition.Clear(run);
                  metrics_.OnClear(p, partition);
                })
        .get();
    SIMURGH_RETURN_IF_ERROR(Annotate(cleared, "cannot drop the rows; restart this server"));
  }
  return absl::OkStatus();
}

Status ParameterServer::Restore(const RestoreRowsCall& call, LoadProgress progress) {
  if (call.ranks == 0 || call.ranks > kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "restore rows: ", call.ranks, " ranks are out of range; use 1 to ", kMaxRanks));
  }
  std::optional<Checkpoint> checkpoint;
  if (!call.model.empty()) {
    SIMURGH_ASSIGN_OR_RETURN(
        checkpoint, ModelDirectory(call.model, environment_.FilesOf(call.model)).Open(call.step));
  }
  if (TrainingOf(rows_of_) == TrainingOf(call.run)) {
    SIMURGH_RETURN_IF_ERROR(Clear(call.run));
  } else {
    std::atomic<uint64_t> rows = 0;
    threads_.on_all([&](uint32_t /*p*/, Partition& partition) {
      for (size_t t = 0; t < tables_.size(); ++t) rows += partition.table(t).stats().rows;
    });
    if (rows > 0) {
      return absl::FailedPreconditionError(
          "restore rows: this server has rows of another training; restart it");
    }
  }
  if (checkpoint) {
    rows_of_ = call.run;
    SIMURGH_RETURN_IF_ERROR(LoadAndCount(*checkpoint, call.server, progress));
  } else if (HasInitialRows(tables_) || !checkpoint_.start_from.empty()) {
    rows_of_ = call.run;
    const RowTarget target{tables_, map_, call.server, threads_};
    if (!checkpoint_.start_from.empty()) {
      const auto start = ModelDirectory::FindHeld(
          [this] { return ModelDirectory::FindBest(checkpoint_.start_from); });
      SIMURGH_RETURN_IF_ERROR(Annotate(start.status(), "checkpoint.start_from"));
      SIMURGH_RETURN_IF_ERROR(LoadStartRows(start->checkpoint, target, progress));
    }
    SIMURGH_RETURN_IF_ERROR(LoadInitialRows(target, progress));
    threads_.on_all([&](uint32_t p, Partition& partition) { metrics_.OnRows(p, partition); });
  }
  threads_.on_all([&](uint32_t p, Partition& partition) {
    partition.BeginAt(call.run, call.ranks, call.step);
    shards_[p]->barrier.BeginAt(call.run, call.step);
  });
  return absl::OkStatus();
}

Status ParameterServer::LoadAndCount(const Checkpoint& checkpoint, uint32_t server,
                                     LoadProgress progress) {
  const Status loaded = LoadRows(checkpoint, server, progress);
  threads_.on_all([&](uint32_t p, Partition& partition) { metrics_.OnRows(p, partition); });
  return loaded;
}

Status ParameterServer::LoadLost(uint64_t run, const Status& loss, LoadProgress progress) {
  const std::string& directory = checkpoint_.directory;
  ModelDirectory model(directory, environment_.FilesOf(directory));
  SIMURGH_ASSIGN_OR_RETURN(const uint64_t newest, model.HighestGeneration());
  if (newest > GenerationOf(run)) return SupersededError(RunNumber(newest, run));
  const auto found = model.Latest();
  if (absl::IsNotFound(found.status())) return loss;
  SIMURGH_RETURN_IF_ERROR(found.status());
  // A start that has saved nothing may continue another checkpoint than the newest one.
  const Manifest& manifest = found->checkpoint.manifest;
  if (RunNumber(manifest.generation, manifest.run) != run) return loss;
  SIMURGH_RETURN_IF_ERROR(Clear(run));
  rows_of_ = run;
  SIMURGH_RETURN_IF_ERROR(LoadAndCount(found->checkpoint, server_, progress));
  threads_.on_all(
      [&](uint32_t /*p*/, Partition& partition) { partition.BeginAnywhere(run, ranks_); });
  metrics_.OnLostRowsRestored();
  spdlog::warn(
      "loaded lost rows from the last checkpoint, while training continues without a rollback: "
      "checkpoint={} run={:016x}",
      found->checkpoint.folder, run);
  return absl::OkStatus();
}

Status ParameterServer::RestoreLost(uint64_t run, const Status& loss) {
  if (checkpoint_.on_server_loss == CheckpointConfig::OnServerLoss::kRollback) return loss;
  const std::string name = absl::StrCat("restore lost rows of run ", run);
  const auto load = [this, run,
                     loss](RowTask::Progress& progress) -> StatusOr<std::vector<ModelFile>> {
    SIMURGH_RETURN_IF_ERROR(LoadLost(run, loss, [&](uint64_t rows, uint64_t all_rows) {
      return ReportLoad(progress, rows, all_rows);
    }));
    return std::vector<ModelFile>();
  };
  SIMURGH_ASSIGN_OR_RETURN(const SaveProgress progress,
                           restoring_.StartOrReport(name, [&]() -> StatusOr<RowTask::Work> {
                             return RowTask::Work{.run = load};
                           }));
  if (progress.done) return absl::OkStatus();
  return absl::AbortedError("this server was restarted, and loads the rows of the last checkpoint");
}

rpc::awaitable<StatusOr<SaveProgress>> ParameterServer::RestoreRows(RestoreRowsCall call,
                                                                    rpc::CallOptions /*options*/) {
  const std::string name =
      absl::StrCat("restore rows: ", call.model, ", step ", call.step, ", load ", call.load,
                   " of run ", call.run, " of ", call.ranks, " ranks");
  if (restoring_.IsEarlier(name)) {
    co_return absl::FailedPreconditionError(absl::StrCat(name, ": another load has begun since"));
  }
  // A late call of a restore that is done must not stop a save.
  if (!restoring_.IsLast(name)) SIMURGH_CO_RETURN_IF_ERROR(saver_->Stop());
  const auto load = [this, call](RowTask::Progress& progress) -> StatusOr<std::vector<ModelFile>> {
    const auto begin = std::chrono::steady_clock::now();
    const Status result = Restore(call, [&](uint64_t rows, uint64_t all_rows) {
      return ReportLoad(progress, rows, all_rows);
    });
    if (!result.ok()) {
      spdlog::error("rows are not loaded: {}", std::string(result.message()));
      return result;
    }
    if (!call.model.empty()) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      spdlog::info("loaded rows: model={} step={} rows_read={} seconds={:.2f}", call.model,
                   call.step, progress.rows.load(), seconds.count());
    }
    return std::vector<ModelFile>();
  };
  co_return restoring_.StartOrReport(
      name, [&]() -> StatusOr<RowTask::Work> { return RowTask::Work{.run = load}; });
}

std::vector<uint64_t> ParameterServer::ContentDigests() {
  std::vector<uint64_t> digests(tables_.size());
  for (uint32_t p = 0; p < shards_.size(); ++p) {
    threads_
        .on_one(p,
                [&](Partition& partition) {
                  for (size_t t = 0; t < digests.size(); ++t) {
                    digests[t] += partition.table(t).ContentDigest();
                  }
                })
        .get();
  }
  return digests;
}

void ParameterServer::CloseBarriers() {
  for (const auto& shard : shards_) {
    rpc::asio::post(shard->thread->executor(), [shard = shard.get()] {
      shard->barrier.Close();
      shard->closed = true;
      shard->Resume();
    });
  }
}

void ParameterServer::ResumeAll() {
  for (const auto& shard : shards_) {
    rpc::asio::post(shard->thread->executor(), [shard = shard.get()] { shard->Resume(); });
  }
}

}  // namespace simurgh
