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
    std::optional<std::string_view> value;  // Nothing: the record has none. Until the next call.
    std::string_view partition;             // "topic/partition"; while the stream lives.
    uint64_t offset = 0;                    // Ascending in a partition, perhaps with gaps.
  };

  virtual ~RecordStream() = default;

  // The next record. A source may deliver one again. Nothing: there is none yet, or has_ended().
  // Waits for a short time. Errors: CANCELLED after Stop(); those that waiting does not mend.
  virtual StatusOr<std::optional<Record>> Next() = 0;
  virtual bool has_ended() const = 0;

  // Where the partitions continue, as far as this is known without their records: their first
  // offsets, and those at their ends.
  virtual const StreamOffsets& offsets() const = 0;

  // Ends a blocked Next(), now or later. Threads: any.
  virtual void Stop() = 0;
};

// Reads the records' values as rows in the format of `config`: a record is one row, or an Arrow IPC
// file or stream of rows, which batches may divide. A bad row is named by partition and offset;
// what cannot be read of an Arrow record is one. A record without a value is no row. A batch's
// progress has the places after its rows, of all partitions. If no batch is complete yet, Next()
// returns an idle one, and keeps its rows.
//
// begin: where the partitions continue; rows before, and those that are delivered again, are left
// out. read: as for OpenBatchReader, but only keep_negatives, seed, bad_rows
// and on_row.
// Lifetime: the stream outlives the reader. Errors: of OpenBatchReader; FAILED_PRECONDITION for
// Arrow records without the module that reads them.
StatusOr<std::unique_ptr<BatchReader>> OpenStreamReader(const DataConfig& config,
                                                        const std::vector<FeatureConfig>& features,
                                                        RecordStream& stream, StreamOffsets begin,
                                                        size_t batch_size,
                                                        const ReadOptions& read = {});

}  // namespace simurgh
