#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "services/api/skipped_rows.h"
#include "simurgh/base/status.h"
#include "simurgh/config/agreement.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/batch.h"

namespace simurgh {

struct LoaderClientOptions {
  uint32_t loader = 0;  // Which of config.loaders.instances this is.
  // InputAgreement of the fitted configuration if batches are made of its training files: the
  // trainer refuses a loader whose batches would differ from its own. Empty: batches are made in
  // another way, and only ClusterAgreement is compared.
  std::string input = {};
};

// Feeds batches into a training run from outside of the nn-worker:
//
//   SIMURGH_ASSIGN_OR_RETURN(auto client, LoaderClient::Open(config, {.loader = 1}, stop));
//   for (uint64_t number = 0; ...; ++number) {
//     if (client->HasTaken(number)) continue;  // Fed before a restart.
//     SIMURGH_ASSIGN_OR_RETURN(const bool wanted, client->Feed(std::move(batch), skipped));
//     if (!wanted) break;
//   }
//   SIMURGH_RETURN_IF_ERROR(client->End(skipped));  // Or Abandon, if a batch cannot be made.
//
// A BatchBuilder makes batches: features in the order of the configuration, dense columns as
// DenseColumns names them (the trainer adds masks of raw features), at most training.batch_size
// samples. The trainer trains on every batch exactly once: the client numbers batches and repeats
// one until it is acknowledged; the trainer drops repeated ones.
//
// With several nn-workers, batch n of a loader is for rank n modulo their number. So one loader has
// the batches of a step for all ranks, and the next loader those of the next step.
//
// Threads: one owner.
class LoaderClient {
 public:
  // Waits for all nn-workers, up to training.retry_deadline.
  // Errors: INVALID_ARGUMENT for a loader that the configuration does not have, or that fits the
  // trainer's configuration badly (of options.input by key); UNAVAILABLE when the trainer cannot be
  // reached; CANCELLED after a stop. config: of LoadClusterConfig, with or without FitStatistics.
  // Not kept.
  static StatusOr<std::unique_ptr<LoaderClient>> Open(const ClusterConfig& config,
                                                      const LoaderClientOptions& options,
                                                      std::stop_token stop);

  // As Abandon, for a loader that cannot be opened, for example without statistics.
  // Errors: INVALID_ARGUMENT for a loader that the configuration does not have; else as Feed.
  static Status AbandonUnopened(const ClusterConfig& config, uint32_t loader, const Status& reason,
                                std::stop_token stop);

  virtual ~LoaderClient() = default;

  // Batches of this loader that the trainer had when this was opened.
  virtual uint64_t taken() const = 0;

  // Whether the trainer has the batch of this number, from 0: it must not be fed again. Ranks may
  // have different numbers of batches.
  virtual bool HasTaken(uint64_t number) const = 0;

  // Feeds the first batch that has neither been taken nor fed; a few may be in flight. Waits,
  // without a timeout, while the batch's rank is full. False: no rank needs more batches. Errors:
  // of this or an earlier batch: INVALID_ARGUMENT for one that the trainer refuses; UNAVAILABLE or
  // DEADLINE_EXCEEDED when an nn-worker was lost for training.retry_deadline, which the others have
  // been told; FAILED_PRECONDITION when another trainer took its place; ABORTED when training has
  // ended before its data, with the reason; CANCELLED after a stop. Cost: encodes the batch, some
  // 10 ns an id. skipped: bad rows up to and including this batch; the trainer fails when those of
  // all loaders exceed data.max_bad_rows. Rank 0 counts them.
  virtual StatusOr<bool> Feed(Batch batch, SkippedRows skipped) = 0;

  // Waits until the trainer has all batches, and ends the share.
  // Errors: as Feed.
  virtual Status End(SkippedRows skipped) = 0;

  // Reports to all nn-workers that the rest of the share cannot be fed. They fail with this reason
  // at once, instead of after loaders.timeout, and report it to the other loaders. No Feed may
  // follow. Errors: as Feed.
  virtual Status Abandon(const Status& reason) = 0;
};

}  // namespace simurgh
