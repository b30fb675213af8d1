#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"

namespace simurgh {

// Records of the partitions of a stream, such as topics of Kafka: in order within a partition.
//
// Threads: one owner.
class RecordStream {
 public:
  struct Record {
    // Nothing: the record has no value. Lifetime: until the next call.
    std::optional<std::string_view> value;
    std::string_view partition;  // "topic/partition". Lifetime: that of the stream.
    uint64_t offset = 0;         // Offsets ascend in a partition, perhaps with gaps.
  };

  virtual ~RecordStream() = default;

  // Returns the next record. A source may deliver one again. Nothing: there is none yet, or
  // has_ended(). Waits for a short time. Errors: CANCELLED after Stop(); those that a retry cannot
  // fix.
  virtual StatusOr<std::optional<Record>> Next() = 0;
  virtual bool has_ended() const = 0;

  // Returns where the partitions continue, as far as this is known without their records: their
  // first offsets, and those at their ends.
  virtual const StreamOffsets& offsets() const = 0;

  // Ends a blocked Next(), now or later. Threads: any.
  virtual void Stop() = 0;
};

// Reads the records' values as rows in the format of `config`: a record is one row, or an Arrow IPC
// file or stream of rows, which batches may divide. Messages name a bad row by partition and
// offset; the unreadable rest of an Arrow record counts as one. A record without a value is no row.
// A batch's progress has the places after its rows, of all partitions. If no batch is complete yet,
// Next() returns an idle one, and keeps its rows.
//
// begin: where the partitions continue; rows before, and those that are delivered again, are left
// out. read: see OpenBatchReader; only keep_negatives, seed, bad_rows and on_row apply.
// Lifetime: the stream outlives the reader. Errors: those of OpenBatchReader; FAILED_PRECONDITION
// for Arrow records without the module that reads them.
StatusOr<std::unique_ptr<BatchReader>> OpenStreamReader(const DataConfig& config,
                                                        const std::vector<FeatureConfig>& features,
                                                        RecordStream& stream, StreamOffsets begin,
                                                        size_t batch_size,
                                                        const ReadOptions& read = {});

}  // namespace simurgh
