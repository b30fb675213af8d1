#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/status.h"
#include "config/cluster_config.h"
#include "data/batch/batch.h"
#include "embedding/batch_plan.h"
#include "embedding/batch_pooling.h"
#include "embedding/bucket_map.h"
#include "embedding/rank_row_cache.h"
#include "embedding/row_codec.h"
#include "embedding/row_wire.h"
#include "rpc/method.h"
#include "telemetry/metrics.h"

namespace simurgh {

// Bytes of metadata and payload of a method's calls, as simurgh_rpc_request_bytes_total and
// simurgh_rpc_response_bytes_total count them.
struct CallBytes {
  double request = 0;
  double response = 0;

  double both() const { return request + response; }
  template <typename Request>
  void Add(const rpc::Outgoing<Request>& sent) {
    request += static_cast<double>(rpc::BytesOf(sent.message()));
  }
  template <typename Request, typename Response>
  void Add(const rpc::Outgoing<Request>& sent, const rpc::Outgoing<Response>& answer) {
    Add(sent);
    response += static_cast<double>(rpc::BytesOf(answer.message()));
  }
};

// The bytes that the steps of one rank have sent.
struct StepTraffic {
  CallBytes submit, pull, push;  // Between nn-worker and embedding worker.
  // Between embedding worker and all servers. The first only with a folder for cold rows.
  CallBytes read_rows_ahead, pull_rows, push_rows;
  double rows = 0;  // Rows that pulls have requested.
  uint64_t steps = 0;
  double buffered_bytes = 0;  // Size of the largest batch in the forward buffer.
};

// Counts the bytes that training steps send, without a cluster: from a batch's plan and the
// formulas of the codecs. A test compares them with those of real daemons.
//
// Threads: one owner.
class StepMeter {
 public:
  // Lifetime: `config` outlives the meter.
  explicit StepMeter(const ClusterConfig& config);

  // Counts the calls of a step with this batch. Errors: of EncodeBatch and CheckLists.
  Status Step(const CompactBatch& batch);

  // What the steps so far have sent. A row cache is cold in the first training.row_age_steps;
  // Forget() them.
  const StepTraffic& traffic() const { return traffic_; }
  void Forget() { traffic_ = {}; }

 private:
  // Counts the calls to the servers. Returns the age of the oldest cached row.
  void ReadRowsAhead(const BatchPlan& plan);
  uint32_t PullRows(const BatchPlan& plan, uint64_t step);
  NeededPushes NeededAt(uint64_t step) const;
  void PushRows(const BatchPlan& plan, uint64_t step);

  const ClusterConfig& config_;
  const BatchLayout layout_;
  const BucketMap map_;
  const BatchPooling pooling_;
  const RowWire row_wire_;
  const RowWire gradient_wire_;
  const RowCodec row_codec_;
  MetricRegistry registry_;
  RowCacheMetrics cache_metrics_;
  std::optional<RankRowCache> cache_;  // Nothing: rows are not cached.
  PlanScratch scratch_;
  AlignedBuffer memory_;  // Bytes of messages, which are not read.
  StepTraffic traffic_;
  uint64_t step_ = 1;
};

}  // namespace simurgh
