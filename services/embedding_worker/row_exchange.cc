#include "services/embedding_worker/row_exchange.h"

#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <utility>

#include <boost/asio/strand.hpp>

namespace simurgh {

RowCacheRanks::RowCacheRanks(size_t capacity_bytes, std::vector<uint32_t> table_dims,
                             rpc::asio::any_io_executor compute, RowCacheMetrics& metrics)
    : capacity_bytes_(capacity_bytes),
      table_dims_(std::move(table_dims)),
      compute_(std::move(compute)),
      metrics_(metrics) {}

std::shared_ptr<RowCacheRanks::Rank> RowCacheRanks::Of(const StepId& step_id,
                                                       uint32_t max_age_steps) {
  if (capacity_bytes_ == 0 || max_age_steps == 0 || step_id.rank >= step_id.ranks) return nullptr;
  if (std::pair(step_id.run, step_id.ranks) != std::pair(run_, ranks_count_) ||
      max_age_steps != max_age_steps_) {
    ranks_.clear();
    run_ = step_id.run;
    ranks_count_ = step_id.ranks;
    max_age_steps_ = max_age_steps;
  }
  std::shared_ptr<Rank>& rank = ranks_[step_id.rank];
  if (rank == nullptr) {
    rank = std::shared_ptr<Rank>(
        new Rank{rpc::asio::make_strand(compute_),
                 {capacity_bytes_ / ranks_count_, max_age_steps_, table_dims_, metrics_}});
  }
  return rank;
}

namespace {

// Idle memory kept for rows and gradients of later batches.
constexpr size_t kIdleBytes = size_t{512} << 20;

}  // namespace

// Owned by a pull's calls and tasks.
struct RowExchange::PullState {
  std::shared_ptr<const BufferedBatch> batch;
  PullOptions options;
  RowRequest request;
  Rows rows;
  std::shared_ptr<AlignedBuffer> bytes;        // Encoded rows; null: the floats themselves.
  std::shared_ptr<RowCacheRanks::Rank> cache;  // Null: the request has every row.
  // Offsets and ids of cache misses; null without a cache.
  std::shared_ptr<AlignedBuffer> ids;
  std::shared_ptr<AlignedBuffer> offsets;

  const BatchPlan& plan() const { return batch->plan; }
  std::span<float> floats() const { return rows.floats->as<float>(plan().row_floats); }
  std::span<std::byte> bytes_of(const ServerRows& server) const {
    const AlignedBuffer& all = bytes == nullptr ? *rows.floats : *bytes;
    return all.bytes().subspan(server.first_byte, server.byte_count);
  }
  std::span<const uint64_t> ids_of(const ServerRows& server) const {
    const std::span<const uint64_t> all =
        cache != nullptr ? ids->as<const uint64_t>(request.id_count) : std::span(plan().ids);
    return all.subspan(server.first_id, server.id_count);
  }
  std::span<const uint64_t> offsets_of(const ServerRows& server) const {
    return offsets->as<const uint64_t>(request.id_count).subspan(server.first_id, server.id_count);
  }
};

struct RowExchange::PushState {
  std::shared_ptr<const BufferedBatch> batch;
  StepId step_id;
  RowRequest request;
  std::vector<std::vector<float>> learning_rates;  // Indexed by server and group.
  std::shared_ptr<AlignedBuffer> gradients;
  std::shared_ptr<AlignedBuffer> bytes;  // See PullState.
};

RowExchange::RowExchange(const ClusterConfig& config, rpc::asio::any_io_executor compute,
                         std::vector<std::unique_ptr<RowPort>> servers, WorkerMetrics& metrics)
    : compute_(std::move(compute)),
      has_cold_rows_(!config.embedding_ps.cold_directory.empty()),
      servers_(std::move(servers)),
      row_wire_(config.embedding_worker.row_precision, LayoutOf(config).table_dims),
      gradient_wire_(config.embedding_worker.row_gradient_precision, LayoutOf(config).table_dims),
      metrics_(metrics),
      row_cache_(config.embedding_worker.row_cache_bytes, LayoutOf(config).table_dims, compute_,
                 metrics.row_cache),
      memory_(kIdleBytes) {}

template <typename Call>
rpc::awaitable<Status> RowExchange::OnServers(Histogram& seconds, const char* stage,
                                              const rpc::Trace& trace, const Call& call) {
  StageTimer timer(seconds, stage, trace);
  std::vector<rpc::awaitable<Status>> tasks;
  for (size_t server = 0; server < servers_.size(); ++server) tasks.push_back(call(server));
  const Status status = co_await rpc::WhenAll(std::move(tasks));
  timer.Stop();
  co_return absl::IsUnavailable(status) ? absl::AbortedError(status.message()) : status;
}

rpc::awaitable<void> RowExchange::Prepare(std::shared_ptr<PullState> state) {
  const BatchPlan& plan = state->plan();
  state->rows.floats = Lease(plan.row_floats * sizeof(float));
  // An evaluation reads the current rows.
  if (state->options.mode == LookupMode::kTrain) {
    state->cache = row_cache_.Of(state->options.step_id, state->options.row_age_steps);
  }
  if (state->cache == nullptr) {
    state->request = row_wire_.RequestFor(plan);
  } else {
    state->ids = Lease(plan.ids.size() * sizeof(uint64_t));
    state->offsets = Lease(plan.ids.size() * sizeof(uint64_t));
    const auto split = [this, state] {
      const BatchPlan& all = state->plan();
      return state->cache->rows.Split(all, state->options.step_id.step, row_wire_.precision(),
                                      state->floats(), state->ids->as<uint64_t>(all.ids.size()),
                                      state->offsets->as<uint64_t>(all.ids.size()));
    };
    RankRowCache::Missing missing = co_await rpc::RunOn(state->cache->thread, split);
    state->request = std::move(missing.request);
    state->rows.age_steps = missing.age_steps;
  }
  if (state->cache != nullptr || !row_wire_.is_plain()) {
    state->bytes = Lease(state->request.byte_count);
  }
}

rpc::awaitable<Status> RowExchange::PullFrom(size_t server, std::shared_ptr<PullState> state,
                                             rpc::CallOptions options) {
  const ServerRows& part = state->request.servers[server];
  PullRowsCall call{.mode = state->options.mode,
                    .step_id = state->options.step_id,
                    .needed = state->options.needed,
                    .groups = part.groups,
                    .ids = state->ids_of(part),
                    .rows = state->bytes_of(part),
                    .owner = state};
  const auto report = co_await servers_[server]->Pull(
      std::move(call), {options.deadline, options.trace.Child(server)});
  SIMURGH_CO_RETURN_IF_ERROR(report.status());
  // Decode while other servers' rows are still in flight.
  if (state->cache != nullptr) {
    co_await rpc::RunOn(state->cache->thread, [this, state, server] {
      const ServerRows& rows = state->request.servers[server];
      state->cache->rows.Insert(rows, state->options.step_id.step, row_wire_, state->bytes_of(rows),
                                state->ids_of(rows), state->offsets_of(rows), state->floats());
    });
  } else if (!row_wire_.is_plain()) {
    co_await rpc::RunOn(compute_, [this, state, server] {
      const ServerRows& rows = state->request.servers[server];
      const ServerShare& share = state->plan().servers[server];
      row_wire_.Decode(rows, state->bytes_of(rows),
                       state->floats().subspan(share.first_float, share.float_count));
    });
  }
  co_return absl::OkStatus();
}

rpc::awaitable<StatusOr<RowExchange::Rows>> RowExchange::Pull(
    std::shared_ptr<const BufferedBatch> batch, PullOptions options,
    rpc::CallOptions call_options) {
  const auto state = std::make_shared<PullState>();
  state->batch = std::move(batch);
  state->options = options;
  co_await Prepare(state);
  const auto pull = [&](size_t server) { return PullFrom(server, state, call_options); };
  const bool awaits = options.needed.awaited_steps > 0;
  Histogram& seconds = awaits ? metrics_.await_seconds : metrics_.pull_seconds;
  SIMURGH_CO_RETURN_IF_ERROR(
      co_await OnServers(seconds, awaits ? "await" : "pull", call_options.trace, pull));
  co_return state->rows;
}

rpc::awaitable<Status> RowExchange::PushTo(size_t server, std::shared_ptr<PushState> state,
                                           rpc::CallOptions options) {
  if (!gradient_wire_.is_plain()) {
    co_await rpc::RunOn(compute_, [this, state, server] {
      const ServerRows& part = state->request.servers[server];
      const ServerShare& share = state->batch->plan.servers[server];
      const auto gradients = state->gradients->as<const float>(state->batch->plan.row_floats);
      gradient_wire_.Encode(part, gradients.subspan(share.first_float, share.float_count),
                            state->bytes->bytes().subspan(part.first_byte, part.byte_count));
    });
  }
  const ServerRows& part = state->request.servers[server];
  const AlignedBuffer& bytes = state->bytes == nullptr ? *state->gradients : *state->bytes;
  PushRowsCall call{.step_id = state->step_id,
                    .groups = part.groups,
                    .learning_rates = state->learning_rates[server],
                    .ids = std::span(state->batch->plan.ids).subspan(part.first_id, part.id_count),
                    .gradients = bytes.bytes().subspan(part.first_byte, part.byte_count),
                    .owner = state};
  const auto report = co_await servers_[server]->Push(
      std::move(call), {options.deadline, options.trace.Child(server)});
  co_return report.status();
}

rpc::awaitable<Status> RowExchange::Push(std::shared_ptr<const BufferedBatch> batch, StepId step_id,
                                         std::vector<float> learning_rates,
                                         std::shared_ptr<AlignedBuffer> gradients,
                                         rpc::CallOptions options) {
  const auto state = std::make_shared<PushState>();
  state->batch = std::move(batch);
  state->step_id = step_id;
  state->gradients = std::move(gradients);
  state->request = gradient_wire_.RequestFor(state->batch->plan);
  if (!gradient_wire_.is_plain()) state->bytes = Lease(state->request.byte_count);
  for (const ServerRows& part : state->request.servers) {
    std::vector<float>& rates = state->learning_rates.emplace_back();
    for (const RowGroup& group : part.groups) rates.push_back(learning_rates[group.table]);
  }
  const auto push = [&](size_t server) { return PushTo(server, state, options); };
  co_return co_await OnServers(metrics_.push_seconds, "push", options.trace, push);
}

rpc::awaitable<void> RowExchange::ReadAhead(std::shared_ptr<const BufferedBatch> batch,
                                            rpc::CallOptions options) {
  if (!has_cold_rows_) co_return;
  // A submit does not wait for a lost server.
  constexpr std::chrono::milliseconds kMostWait(100);
  options.deadline = std::min(options.deadline, rpc::Clock::now() + kMostWait);
  const auto request = std::make_shared<const RowRequest>(row_wire_.RequestFor(batch->plan));
  const auto tell = [&](size_t server) -> rpc::awaitable<Status> {
    const ServerRows& part = request->servers[server];
    if (part.id_count == 0) co_return absl::OkStatus();
    ReadRowsAheadCall call{
        .groups = part.groups,
        .ids = std::span(batch->plan.ids).subspan(part.first_id, part.id_count),
        .owner = std::make_shared<std::pair<decltype(batch), decltype(request)>>(batch, request)};
    co_return co_await servers_[server]->ReadAhead(std::move(call), options);
  };
  std::vector<rpc::awaitable<Status>> calls;
  for (size_t server = 0; server < servers_.size(); ++server) calls.push_back(tell(server));
  (co_await rpc::WhenAll(std::move(calls))).IgnoreError();
}

rpc::awaitable<Status> RowExchange::EndRun(StepId step_id, rpc::CallOptions options) {
  std::vector<rpc::awaitable<Status>> tasks;
  for (const auto& server : servers_) tasks.push_back(server->EndRun(step_id, options));
  co_return co_await rpc::WhenAll(std::move(tasks));
}

template <typename Call>
rpc::awaitable<StatusOr<SaveProgress>> RowExchange::SumProgress(
    Call call, rpc::CallOptions options,
    rpc::awaitable<StatusOr<SaveProgress>> (RowPort::*method)(Call, rpc::CallOptions)) {
  SaveProgress all{.done = true};
  const auto one = [&](uint32_t server) -> rpc::awaitable<Status> {
    Call own = call;
    own.server = server;
    SIMURGH_CO_ASSIGN_OR_RETURN(SaveProgress progress,
                                co_await ((*servers_[server]).*method)(std::move(own), options));
    all.done = all.done && progress.done;
    all.rows += progress.rows;
    all.all_rows += progress.all_rows;
    all.bytes += progress.bytes;
    std::ranges::move(progress.files, std::back_inserter(all.files));
    all.evicted.resize(std::max(all.evicted.size(), progress.evicted.size()));
    std::ranges::transform(progress.evicted, all.evicted, all.evicted.begin(), std::plus());
    co_return absl::OkStatus();
  };
  std::vector<rpc::awaitable<Status>> tasks;
  for (uint32_t server = 0; server < servers_.size(); ++server) tasks.push_back(one(server));
  SIMURGH_CO_RETURN_IF_ERROR(co_await rpc::WhenAll(std::move(tasks)));
  co_return all;
}

rpc::awaitable<StatusOr<SaveProgress>> RowExchange::SaveRows(SaveRowsCall call,
                                                             rpc::CallOptions options) {
  return SumProgress(std::move(call), options, &RowPort::SaveRows);
}

rpc::awaitable<StatusOr<SaveProgress>> RowExchange::RestoreRows(RestoreRowsCall call,
                                                                rpc::CallOptions options) {
  return SumProgress(std::move(call), options, &RowPort::RestoreRows);
}

}  // namespace simurgh
