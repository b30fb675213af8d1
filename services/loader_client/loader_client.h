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
//     if (client->HasTaken(number)) continue;  // The trainer has it from an earlier life.
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
// Of several nn-workers, batch n of a loader is for rank n modulo their number: so each of them
// takes a step's batches, one for each rank, from one loader, and the next step's from the next.
//
// Threads: one owner.
class LoaderClient {
 public:
  // Waits for all nn-workers, for training.retry_deadline at most.
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

  // Batches of this loader that the trainer had when this was opened.
  virtual uint64_t taken() const = 0;

  // Whether that of this number, from 0, is one of them: it must not be fed again. One rank may
  // have come further than another.
  virtual bool HasTaken(uint64_t number) const = 0;

  // Hands over the first batch that has neither been taken nor fed; a few may be on their way at
  // once. Waits while the rank that it is for is full, as long as it takes. False: no rank wants
  // more.
  // Errors: of this or an earlier batch: INVALID_ARGUMENT for one that the trainer refuses;
  // UNAVAILABLE or DEADLINE_EXCEEDED when an nn-worker was lost for training.retry_deadline, which
  // the others have been told;
  // FAILED_PRECONDITION when another trainer took its place; ABORTED when training has ended before
  // its data, with the reason; CANCELLED after a stop. Cost: encodes the batch, some 10 ns an id.
  // skipped: bad rows left out up to and with this batch: the trainer ends when those of all
  // loaders are more than data.max_bad_rows. Rank 0 counts them.
  virtual StatusOr<bool> Feed(Batch batch, SkippedRows skipped) = 0;

  // Waits until the trainer has all batches, and tells it that there are no more.
  // Errors: as Feed.
  virtual Status End(SkippedRows skipped) = 0;

  // Tells all nn-workers, at once, that the rest of the share cannot be fed: they end with this
  // reason, and tell the other loaders. Without it they would wait for loaders.timeout. Nothing can
  // be fed behind it.
  // Errors: as Feed.
  virtual Status Abandon(const Status& reason) = 0;
};

}  // namespace simurgh
