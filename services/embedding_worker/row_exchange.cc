#include "services/embedding_worker/row_exchange.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <boost/asio/strand.hpp>

namespace simurgh {
namespace {

// Calls visit(group, ids, first byte, first float) for each group.
template <typename Visit>
void ForEachGroup(std::span<const RowGroup> groups, const Visit& visit) {
  size_t byte = 0;
  size_t number = 0;
  for (const RowGroup& group : groups) {
    const api::RowPayload payload = api::PayloadOf(group);
    visit(group, payload.ids, byte, number);
    byte += payload.bytes;
    number += payload.ids * group.dim;
  }
}

}  // namespace

void RowRequest::Add(std::vector<RowGroup> groups) {
  const api::RowPayload payload = api::PayloadOf(groups);
  servers.push_back({.groups = std::move(groups),
                     .first_id = id_count,
                     .id_count = payload.ids,
                     .first_byte = byte_count,
                     .byte_count = payload.bytes});
  id_count += payload.ids;
  byte_count += payload.bytes;
}

RowWire::RowWire(RowPrecision precision, const std::vector<uint32_t>& table_dims)
    : precision_(precision) {
  for (const uint32_t dim : table_dims) {
    codecs_.emplace_back(VectorPrecisionOf(precision), std::vector<uint32_t>{dim});
  }
}

RowRequest RowWire::RequestFor(const BatchPlan& plan) const {
  RowRequest request;
  for (const ServerShare& share : plan.servers) {
    std::vector<RowGroup> groups = share.groups;
    for (RowGroup& group : groups) group.precision = precision_;
    request.Add(std::move(groups));
  }
  return request;
}

void RowWire::Encode(const ServerRows& server, std::span<const float> rows,
                     std::span<std::byte> bytes) const {
  ForEachGroup(server.groups, [&](const RowGroup& group, size_t ids, size_t byte, size_t number) {
    const VectorCodec& code = codecs_[group.table];
    code.Encode(MatrixView<const float>(rows.data() + number, ids, group.dim), /*factor=*/1,
                /*key=*/std::nullopt, bytes.subspan(byte, ids * code.row_bytes()));
  });
}

void RowWire::Decode(const ServerRows& server, std::span<const std::byte> bytes,
                     std::span<float> rows) const {
  ForEachGroup(server.groups, [&](const RowGroup& group, size_t ids, size_t byte, size_t number) {
    const VectorCodec& code = codecs_[group.table];
    code.Decode(bytes.subspan(byte, ids * code.row_bytes()), /*factor=*/1,
                MatrixView<float>(rows.data() + number, ids, group.dim));
  });
}

namespace {

constexpr size_t kRowsAhead = 8;  // Prefetch distance in the index.
constexpr size_t kMaxAge = 64;

std::vector<size_t> RowBytes(const std::vector<uint32_t>& dims) {
  std::vector<size_t> bytes;
  for (const uint32_t dim : dims) bytes.push_back(dim * sizeof(float));
  return bytes;
}

}  // namespace

RankRowCache::RankRowCache(size_t capacity_bytes, uint32_t max_age_steps,
                           const std::vector<uint32_t>& table_dims,
                           const rpc::asio::any_io_executor& compute, WorkerMetrics& metrics)
    : thread_(rpc::asio::make_strand(compute)),
      metrics_(metrics),
      rows_(capacity_bytes, max_age_steps, RowBytes(table_dims)) {
  metrics_.row_cache_bytes.Add(static_cast<double>(rows_.bytes()));
}

RankRowCache::~RankRowCache() {
  metrics_.row_cache.Add(-static_cast<double>(reported_rows_));
  metrics_.row_cache_bytes.Add(-static_cast<double>(rows_.bytes()));
}

RankRowCache::Missing RankRowCache::Split(const BatchPlan& plan, uint64_t step,
                                          RowPrecision precision, std::span<float> floats,
                                          std::span<uint64_t> ids, std::span<uint64_t> offsets) {
  Missing missing;
  std::array<uint64_t, kMaxAge + 1> hits{};  // By age.
  size_t misses = 0;
  size_t offset = 0;
  for (const ServerShare& share : plan.servers) {
    std::vector<RowGroup> groups = share.groups;
    const auto all = std::span(plan.ids).subspan(share.first_id, share.id_count);
    api::ForEachRun(share.groups, [&](size_t p, size_t g, size_t first, size_t count, size_t) {
      RowGroup& group = groups[g];
      const std::span<const uint64_t> run = all.subspan(first, count);
      const size_t before = misses;
      for (size_t i = 0; i < count; ++i, offset += group.dim) {
        if (i + kRowsAhead < count) rows_.Prefetch(group.table, run[i + kRowsAhead]);
        const auto age = rows_.Find(group.table, run[i], step,
                                    std::as_writable_bytes(floats.subspan(offset, group.dim)));
        if (age) {
          ++hits[std::min<size_t>(*age, kMaxAge)];
          missing.age_steps = std::max(missing.age_steps, *age);
          continue;
        }
        ids[misses] = run[i];
        offsets[misses++] = offset;
      }
      group.counts[p] = static_cast<uint32_t>(misses - before);
    });
    for (RowGroup& group : groups) group.precision = precision;
    missing.request.Add(std::move(groups));
  }
  metrics_.row_cache_misses.Add(misses);
  metrics_.row_cache_hits.Add(plan.ids.size() - misses);
  for (size_t age = 0; age < hits.size(); ++age) {
    if (hits[age] > 0) metrics_.row_cache_age_steps.Observe(static_cast<double>(age), hits[age]);
  }
  return missing;
}

void RankRowCache::Insert(const ServerRows& server, uint64_t step, const RowWire& wire,
                          std::span<const std::byte> bytes, std::span<const uint64_t> ids,
                          std::span<const uint64_t> offsets, std::span<float> floats) {
  api::ForEachRun(server.groups, [&](size_t, size_t g, size_t first, size_t count, size_t byte) {
    const RowGroup& group = server.groups[g];
    const size_t row_bytes = wire.row_bytes(group.table);
    for (size_t i = 0; i < count; ++i) {
      if (i + kRowsAhead < count) rows_.Prefetch(group.table, ids[first + i + kRowsAhead]);
      const std::span<float> row = floats.subspan(offsets[first + i], group.dim);
      wire.DecodeRow(group.table, bytes.subspan(byte + i * row_bytes, row_bytes), row);
      if (std::ranges::all_of(row, [](float x) { return x == 0; })) continue;
      rows_.Insert(group.table, ids[first + i], step, std::as_bytes(row));
    }
  });
  metrics_.row_cache.Add(static_cast<double>(rows_.rows()) - static_cast<double>(reported_rows_));
  metrics_.row_cache_evictions.Add(rows_.evicted_for_space() - reported_evicted_for_space_);
  reported_rows_ = rows_.rows();
  reported_evicted_for_space_ = rows_.evicted_for_space();
}

RowCacheRanks::RowCacheRanks(size_t capacity_bytes, std::vector<uint32_t> table_dims,
                             rpc::asio::any_io_executor compute, WorkerMetrics& metrics)
    : capacity_bytes_(capacity_bytes),
      table_dims_(std::move(table_dims)),
      compute_(std::move(compute)),
      metrics_(metrics) {}

std::shared_ptr<RankRowCache> RowCacheRanks::Of(const StepId& step_id, uint32_t max_age_steps) {
  if (capacity_bytes_ == 0 || max_age_steps == 0 || step_id.rank >= step_id.ranks) return nullptr;
  if (std::pair(step_id.run, step_id.ranks) != std::pair(run_, ranks_count_) ||
      max_age_steps != max_age_steps_) {
    ranks_.clear();
    run_ = step_id.run;
    ranks_count_ = step_id.ranks;
    max_age_steps_ = max_age_steps;
  }
  std::shared_ptr<RankRowCache>& rank = ranks_[step_id.rank];
  if (rank == nullptr) {
    rank = std::make_shared<RankRowCache>(capacity_bytes_ / ranks_count_, max_age_steps_,
                                          table_dims_, compute_, metrics_);
  }
  return rank;
}

namespace {

// Idle memory kept for rows and gradients of later batches.
constexpr size_t kIdleBytes = size_t{512} << 20;

std::vector<uint32_t> DimsOf(const ClusterConfig& config) {
  std::vector<uint32_t> dims;
  for (const TableConfig& table : config.tables) dims.push_back(table.dim);
  return dims;
}

}  // namespace

// Owned by a pull's calls and tasks.
struct RowExchange::PullState {
  std::shared_ptr<const BufferedBatch> batch;
  PullOptions options;
  RowRequest request;
  Rows rows;
  std::shared_ptr<AlignedBuffer> bytes;  // Encoded rows; null: the floats themselves.
  std::shared_ptr<RankRowCache> cache;   // Null: the request has every row.
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
  std::vector<std::vector<float>> learning_rates;  // By server and group.
  std::shared_ptr<AlignedBuffer> gradients;
  std::shared_ptr<AlignedBuffer> bytes;  // See PullState.
};

RowExchange::RowExchange(const ClusterConfig& config, rpc::asio::any_io_executor compute,
                         std::vector<std::unique_ptr<RowServer>> servers, WorkerMetrics& metrics)
    : compute_(std::move(compute)),
      servers_(std::move(servers)),
      row_wire_(config.embedding_worker.row_precision, DimsOf(config)),
      gradient_wire_(config.embedding_worker.row_gradient_precision, DimsOf(config)),
      metrics_(metrics),
      row_cache_(config.embedding_worker.row_cache_bytes, DimsOf(config), compute_, metrics),
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
      return state->cache->Split(all, state->options.step_id.step, row_wire_.precision(),
                                 state->floats(), state->ids->as<uint64_t>(all.ids.size()),
                                 state->offsets->as<uint64_t>(all.ids.size()));
    };
    RankRowCache::Missing missing = co_await rpc::RunOn(state->cache->thread(), split);
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
                    .acknowledged_steps = state->options.acknowledged_steps,
                    .groups = part.groups,
                    .ids = state->ids_of(part),
                    .rows = state->bytes_of(part),
                    .owner = state};
  const auto report = co_await servers_[server]->Pull(
      std::move(call), {options.deadline, options.trace.Child(server)});
  SIMURGH_CO_RETURN_IF_ERROR(report.status());
  // Decode while other servers' rows are still in flight.
  if (state->cache != nullptr) {
    co_await rpc::RunOn(state->cache->thread(), [this, state, server] {
      const ServerRows& rows = state->request.servers[server];
      state->cache->Insert(rows, state->options.step_id.step, row_wire_, state->bytes_of(rows),
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
  SIMURGH_CO_RETURN_IF_ERROR(
      co_await OnServers(metrics_.pull_seconds, "pull", call_options.trace, pull));
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

rpc::awaitable<Status> RowExchange::EndRun(StepId step_id, rpc::CallOptions options) {
  std::vector<rpc::awaitable<Status>> tasks;
  for (const auto& server : servers_) tasks.push_back(server->EndRun(step_id, options));
  co_return co_await rpc::WhenAll(std::move(tasks));
}

template <typename Call>
rpc::awaitable<StatusOr<SaveProgress>> RowExchange::SumProgress(
    Call call, rpc::CallOptions options,
    rpc::awaitable<StatusOr<SaveProgress>> (RowServer::*method)(Call, rpc::CallOptions)) {
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
    co_return absl::OkStatus();
  };
  std::vector<rpc::awaitable<Status>> tasks;
  for (uint32_t server = 0; server < servers_.size(); ++server) tasks.push_back(one(server));
  SIMURGH_CO_RETURN_IF_ERROR(co_await rpc::WhenAll(std::move(tasks)));
  co_return all;
}

rpc::awaitable<StatusOr<SaveProgress>> RowExchange::SaveRows(SaveRowsCall call,
                                                             rpc::CallOptions options) {
  return SumProgress(std::move(call), options, &RowServer::SaveRows);
}

rpc::awaitable<StatusOr<SaveProgress>> RowExchange::RestoreRows(RestoreRowsCall call,
                                                                rpc::CallOptions options) {
  return SumProgress(std::move(call), options, &RowServer::RestoreRows);
}

}  // namespace simurgh
