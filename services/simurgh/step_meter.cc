#include "services/simurgh/step_meter.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/step_id.h"
#include "data/batch/encoded_batch.h"
#include "embedding/argmax_wire.h"
#include "embedding/batch_pool.h"
#include "services/api/batch_rpc.h"
#include "services/api/row_rpc.h"

namespace simurgh {
namespace {

constexpr uint64_t kIncarnation = 0x5eed'5eed'5eed'5eed;

StepId StepIdOf(const ClusterConfig& config, uint64_t step) {
  return {.run = RunNumber(1, kIncarnation),
          .step = step,
          .ranks = static_cast<uint32_t>(config.nn_worker.instances.size())};
}

}  // namespace

StepMeter::StepMeter(const ClusterConfig& config)
    : config_(config),
      layout_(LayoutOf(config)),
      map_(MapOf(config)),
      pooling_(layout_),
      row_wire_(config.embedding_worker.row_precision, layout_.table_dims),
      gradient_wire_(config.embedding_worker.row_gradient_precision, layout_.table_dims),
      row_codec_(config.training.embedding_precision, WireOf(config).rows),
      cache_metrics_(registry_) {
  const size_t ranks = std::max<size_t>(config.nn_worker.instances.size(), 1);
  const uint32_t age = config.training.row_age_steps;
  if (config.embedding_worker.row_cache_bytes == 0 || age == 0) return;
  cache_.emplace(config.embedding_worker.row_cache_bytes / ranks, age, layout_.table_dims,
                 cache_metrics_);
}

Status StepMeter::Step(const CompactBatch& batch) {
  const TrainingConfig& training = config_.training;
  const uint64_t step = step_++;
  const StepId step_id = StepIdOf(config_, step);
  const BatchReference reference{.worker_incarnation = kIncarnation, .number = step};
  const SubmitOptions submit{.run = step_id.run, .step = step};

  SIMURGH_RETURN_IF_ERROR(CheckLists(batch, layout_));
  BufferedBatch buffered;
  SIMURGH_ASSIGN_OR_RETURN(buffered.encoded, EncodeBatch(batch));
  buffered.decoded = batch;  // Decoding takes the plain ids out of the encoded batch.
  PlanBatch(batch, layout_, map_, scratch_, buffered.plan);
  traffic_.submit.Add(api::Encode(submit, std::make_shared<const EncodedBatch>(buffered.encoded)),
                      api::Encode(reference));
  buffered.encoded.plain_ids = {};
  traffic_.buffered_bytes =
      std::max(traffic_.buffered_bytes, static_cast<double>(buffered.bytes()));

  const size_t pooled_bytes = batch.batch_size * pooling_.row_bytes(training.embedding_precision);
  const EmbeddingWire wire = WireOf(config_);
  const bool are_rows = SendsRows(wire, row_codec_, batch, pooled_bytes);
  const size_t embedding_bytes = are_rows ? row_codec_.bytes(batch) : pooled_bytes;
  const size_t pooled_gradient_bytes =
      batch.batch_size * pooling_.row_bytes(training.gradient_precision);
  const bool are_row_gradients =
      are_rows && SendsRowGradients(wire, row_codec_, batch, pooled_gradient_bytes);
  const size_t gradient_bytes =
      are_row_gradients ? row_codec_.floats(batch) * sizeof(float) : pooled_gradient_bytes;
  const size_t argmax_bytes = are_rows ? 0 : ArgmaxBytes(layout_, batch);
  const size_t row_bytes = std::max(row_wire_.RequestFor(buffered.plan).byte_count,
                                    gradient_wire_.RequestFor(buffered.plan).byte_count);
  const size_t most = std::max({embedding_bytes, gradient_bytes, argmax_bytes, row_bytes});
  if (memory_.bytes().size() < most) {
    memory_ = AlignedBuffer(most);
    // A row cache keeps no zeros.
    std::ranges::fill(memory_.bytes(), std::byte{0x3c});
  }
  const auto bytes = [this](size_t count) { return memory_.bytes().first(count); };
  const std::shared_ptr<const void> lent(&memory_, [](const void*) {});

  ReadRowsAhead(buffered.plan);
  PullAnswer answer{.row_age_steps = PullRows(buffered.plan, step)};
  if (argmax_bytes > 0) answer.argmax = {bytes(argmax_bytes), lent};
  traffic_.pull.Add(api::Encode({.reference = reference,
                                 .options = {.step_id = step_id,
                                             .needed = NeededAt(step),
                                             .row_age_steps = training.row_age_steps},
                                 .precision = training.embedding_precision,
                                 .form = are_rows ? EmbeddingForm::kRows : EmbeddingForm::kPooled}),
                    api::Encode(answer, {bytes(embedding_bytes), lent}));
  const api::PushBatchMessage push{
      .reference = reference,
      .step_id = step_id,
      .learning_rates = std::vector<float>(config_.tables.size(), 1.0F),
      .precision = training.gradient_precision,
      .form = are_row_gradients ? EmbeddingForm::kRows : EmbeddingForm::kPooled,
      .scale = wire.gradient_factor};
  traffic_.push.Add(api::Encode(push, {bytes(gradient_bytes), lent}, answer.argmax));
  PushRows(buffered.plan, step);
  ++traffic_.steps;
  return absl::OkStatus();
}

NeededPushes StepMeter::NeededAt(uint64_t step) const {
  if (step == 0 || !config_.training.awaits_pushes()) return {.acknowledged_steps = step};
  return {.acknowledged_steps = step - 1, .awaited_steps = step};
}

void StepMeter::ReadRowsAhead(const BatchPlan& plan) {
  if (config_.embedding_ps.cold_directory.empty()) return;
  for (const ServerRows& server : row_wire_.RequestFor(plan).servers) {
    if (server.id_count == 0) continue;
    const ReadRowsAheadCall call{
        .groups = server.groups,
        .ids = std::span(plan.ids).subspan(server.first_id, server.id_count)};
    traffic_.read_rows_ahead.Add(api::Encode(call, map_.version()),
                                 rpc::Outgoing<api::ReadRowsAhead::Response>());
  }
}

uint32_t StepMeter::PullRows(const BatchPlan& plan, uint64_t step) {
  std::vector<float> floats(cache_ ? plan.row_floats : 0);
  std::vector<uint64_t> ids = plan.ids;
  std::vector<uint64_t> offsets(cache_ ? ids.size() : 0);
  RankRowCache::Missing missing;
  if (cache_) {
    missing = cache_->Split(plan, step, row_wire_.precision(), floats, ids, offsets);
  } else {
    missing.request = row_wire_.RequestFor(plan);
  }
  for (const ServerRows& server : missing.request.servers) {
    const std::span<std::byte> rows = memory_.bytes().first(server.byte_count);
    const std::span<const uint64_t> asked =
        std::span(ids).subspan(server.first_id, server.id_count);
    const PullRowsCall call{.step_id = StepIdOf(config_, step),
                            .needed = NeededAt(step),
                            .groups = server.groups,
                            .ids = asked,
                            .rows = rows};
    const PullReport report{.found = asked.size(), .created = 1};
    traffic_.rows += static_cast<double>(asked.size());
    traffic_.pull_rows.Add(api::Encode(call, map_.version()), api::Encode(report, {rows}));
    if (!cache_) continue;
    cache_->Insert(server, step, row_wire_, rows, asked,
                   std::span(offsets).subspan(server.first_id, server.id_count), floats);
  }
  return missing.age_steps;
}

void StepMeter::PushRows(const BatchPlan& plan, uint64_t step) {
  for (const ServerRows& server : gradient_wire_.RequestFor(plan).servers) {
    const std::vector<float> rates(server.groups.size(), 1.0F);
    const PushRowsCall call{.step_id = StepIdOf(config_, step),
                            .groups = server.groups,
                            .learning_rates = rates,
                            .ids = std::span(plan.ids).subspan(server.first_id, server.id_count),
                            .gradients = memory_.bytes().first(server.byte_count)};
    const PushReport report{.updated = server.id_count};
    traffic_.push_rows.Add(api::Encode(call, map_.version()), api::Encode(report));
  }
}

}  // namespace simurgh
