#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "base/status.h"
#include "config/cluster_config.h"
#include "data/batch/batch.h"
#include "data/reading/file_identity.h"

namespace simurgh {

namespace rpc {
class Observer;
}

struct LoaderClientOptions {
  uint32_t loader = 0;  // Index into config.loaders.instances.
  // InputAgreement of the fitted configuration if the batches are from its training files; the
  // trainer refuses a loader with another one. Empty: only ClusterAgreement is compared.
  std::string input = {};
  // The batches are of a stream: a restarted loader cannot make the same ones again. It begins at
  // the offsets of begin(), with the batch of number taken(). While it feeds, no other process can
  // feed its share.
  bool stream = false;
  // Observes the calls, on a thread of the client. Must outlive the client.
  rpc::Observer* observer = nullptr;
};

// Takes the statistics from the model that the nn-workers continue, if there is one; otherwise fits
// them to data.train. Files that the model has not seen do not change them. Errors: those of
// FitStatistics and of ModelDirectory.
Status SetLoaderStatistics(ClusterConfig& config, FileIdentities* identities);

// Feeds batches from another process into a training run:
//
//   SIMURGH_ASSIGN_OR_RETURN(auto client, LoaderClient::Open(config, {.loader = 1}, stop));
//   for (uint64_t number = 0; ...; ++number) {
//     if (client->HasTaken(number)) continue;  // Fed before a restart.
//     SIMURGH_ASSIGN_OR_RETURN(const bool wanted, client->Feed(std::move(batch), skipped));
//     if (!wanted) break;
//   }
//   SIMURGH_RETURN_IF_ERROR(client->End(skipped));  // Or Abandon, if a batch cannot be made.
//
// Build batches with BatchBuilder: features in the order of the configuration, dense columns as in
// DenseColumns (the trainer adds masks of raw features), at most training.batch_size samples. The
// trainer trains on every batch exactly once: the client numbers batches and repeats one until it
// is acknowledged; the trainer drops repeated ones. A trainer that continues from a checkpoint has
// trained on earlier batches. Set Batch::progress.next to any growing numbers: begin() returns the
// number of the last batch trained. Without it the trainer repeats all batches.
//
// With several nn-workers, batch n of a loader is for rank n modulo their number. So one loader
// feeds the batches of a step to all ranks, and the next loader those of the next step.
//
// Threads: one owner.
class LoaderClient {
 public:
  // Waits for all nn-workers, up to training.retry_deadline.
  // config: from LoadClusterConfig, with or without FitStatistics; not kept.
  // Errors: INVALID_ARGUMENT for a loader that the configuration does not have, or settings that
  // differ from the trainer's; UNAVAILABLE if the trainer is unreachable; CANCELLED after a stop.
  // FAILED_PRECONDITION, for a stream and several nn-workers, if an earlier process ended between
  // the batches of a step: only nn-workers that start again can continue.
  static StatusOr<std::unique_ptr<LoaderClient>> Open(const ClusterConfig& config,
                                                      const LoaderClientOptions& options,
                                                      std::stop_token stop);

  // Does what Abandon does, for a loader that cannot be opened, for example without statistics.
  // Errors: INVALID_ARGUMENT for a loader that the configuration does not have; those of Feed.
  static Status AbandonUnopened(const ClusterConfig& config, uint32_t loader, const Status& reason,
                                std::stop_token stop);

  virtual ~LoaderClient() = default;

  // Returns where the loaders begin: a trainer may continue from a checkpoint. This loader begins
  // at begin().next(loader), and leaves out rows for which begin().IsRead() holds. For a stream the
  // offsets are those after all batches that the trainer has taken from this loader.
  virtual const DataPosition& begin() const = 0;

  // Returns the number of batches of this loader that the trainer had at Open().
  virtual uint64_t taken() const = 0;

  // Returns whether the trainer had the batch with this number, from 0, at Open(); do not feed it
  // again.
  virtual bool HasTaken(uint64_t number) const = 0;

  // Feeds the first batch that has neither been taken nor fed; a few may be in flight. Waits,
  // without a timeout, while the batch's rank is full. Returns false if no rank needs more batches.
  // skipped: bad rows up to this batch.
  // An idle batch means that a stream has no records for the next step; each rank gets one.
  // Errors, of this or an earlier batch: INVALID_ARGUMENT if the trainer refused it; UNAVAILABLE or
  // DEADLINE_EXCEEDED if an nn-worker was lost for training.retry_deadline; FAILED_PRECONDITION if
  // the trainer was restarted; ABORTED, with the reason, if training ended before its data;
  // CANCELLED after a stop.
  // Cost: encodes the batch, about 10 ns per id.
  virtual StatusOr<bool> Feed(Batch batch, uint64_t skipped) = 0;

  // Waits until the trainer has all batches, then ends the share.
  // Errors: see Feed.
  virtual Status End(uint64_t skipped) = 0;

  // Reports to all nn-workers that the rest of the share cannot be fed. They fail with this reason
  // at once, instead of after loaders.timeout, and report it to the other loaders. No Feed may
  // follow. Errors: see Feed.
  virtual Status Abandon(const Status& reason) = 0;
};

}  // namespace simurgh
