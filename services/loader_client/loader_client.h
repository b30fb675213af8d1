#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "services/api/skipped_rows.h"
#include "simurgh/base/status.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/config/input_keys.h"
#include "simurgh/data/batch.h"

namespace simurgh {

struct LoaderClientOptions {
  uint32_t loader = 0;  // Which of config.loaders.instances this is.
  // InputKeys of the fitted configuration, where batches are made of its training files as it says:
  // the trainer refuses a loader that would make others than itself. None: batches are made in
  // another way, and nothing beyond AgreementHash is compared.
  std::vector<InputKey> input = {};
};

// Feeds batches into a training run from outside of the nn-worker:
//
//   SIMURGH_ASSIGN_OR_RETURN(auto client, LoaderClient::Open(config, {.loader = 1}, stop));
//   for (uint64_t number = 0; ...; ++number) {
//     if (number < client->taken()) continue;  // The trainer has it from an earlier life.
//     SIMURGH_ASSIGN_OR_RETURN(const bool wanted, client->Feed(std::move(batch), skipped));
//     if (!wanted) break;
//   }
//   SIMURGH_RETURN_IF_ERROR(client->End(skipped));  // Or Abandon, if a batch cannot be made.
//
// A BatchBuilder makes batches: features in the order of the configuration, dense columns as
// DenseColumns names them (masks of raw features are the trainer's matter), at most
// training.batch_size samples. Every batch is trained on exactly once: the client numbers them and
// repeats one until it is acknowledged; the trainer leaves out what it has.
//
// Threads: one owner.
class LoaderClient {
 public:
  // Waits for the trainer, for training.retry_deadline at most.
  // Errors: INVALID_ARGUMENT for a loader that the configuration does not have, or that fits the
  // trainer's configuration badly (of options.input by key); UNAVAILABLE when the trainer cannot be
  // reached; CANCELLED after a stop. config: as LoadClusterConfig gives it; what FitStatistics adds
  // is no matter of agreement. Lifetime: `config` is not kept.
  static StatusOr<std::unique_ptr<LoaderClient>> Open(const ClusterConfig& config,
                                                      const LoaderClientOptions& options,
                                                      std::stop_token stop);

  // As Abandon, for a loader that cannot even be opened: that has no statistics, say.
  // Errors: INVALID_ARGUMENT for a loader that the configuration does not have; else as Feed.
  static Status AbandonUnopened(const ClusterConfig& config, uint32_t loader, const Status& reason,
                                std::stop_token stop);

  virtual ~LoaderClient() = default;

  // Batches of this loader that the trainer had when this was opened: they must not be fed again,
  // and Feed continues their numbers.
  virtual uint64_t taken() const = 0;

  // Hands a batch over; a few may be on their way at once. Waits while the trainer is full, as long
  // as it takes. False: the trainer wants no more.
  // Errors: of this or an earlier batch: INVALID_ARGUMENT for one that the trainer refuses;
  // UNAVAILABLE or DEADLINE_EXCEEDED when the trainer was lost for training.retry_deadline;
  // FAILED_PRECONDITION when another trainer took its place; ABORTED when training has ended before
  // its data; CANCELLED after a stop. Cost: encodes the batch, some 10 ns an id.
  // skipped: bad rows left out up to and with this batch: the trainer ends when those of all
  // loaders are more than data.max_bad_rows.
  virtual StatusOr<bool> Feed(Batch batch, SkippedRows skipped) = 0;

  // Waits until the trainer has all batches, and tells it that there are no more.
  // Errors: as Feed.
  virtual Status End(SkippedRows skipped) = 0;

  // Tells the trainer, at once, that the rest of the share cannot be fed: it ends with this reason,
  // and tells the other loaders. Without it the trainer would wait for loaders.timeout. Nothing can
  // be fed behind it.
  // Errors: as Feed.
  virtual Status Abandon(const Status& reason) = 0;
};

}  // namespace simurgh
