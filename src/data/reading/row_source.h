#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/status.h"
#include "config/data_config.h"
#include "data/batch/batch_builder.h"
#include "data/batch/data_position.h"
#include "data/processing/feature_consumer.h"
#include "data/reading/batch_reader.h"
#include "data/reading/record_stream.h"

namespace simurgh {

// Consecutive rows of one file or stream, as they were read. Each source has its own kind.
//
// Threads: one owner at a time.
class RowBlock {
 public:
  virtual ~RowBlock() = default;

  size_t max_rows = SIZE_MAX;  // Limit of Read(), which also bounds the ids of the block.
  size_t rows = 0;
  size_t files_opened = 0;  // Number of files opened, with that of the rows.
  // Shares of all rows before the block, and up to its end; 0: unknown.
  double first_part = 0;
  double last_part = 0;

  // The record of a stream that has the rows.
  struct Record {
    std::string_view value;      // Lifetime: until the next block is read.
    std::string_view partition;  // Lifetime: that of the stream.
    uint64_t offset = 0;
    uint64_t before = 0;  // Rows of the record before the block.
    bool is_last = true;  // No further block of the record follows.
    Status problem = {};  // Why the rest cannot be read; it is then one bad row.
  };
  std::optional<Record> record;  // Nothing: the rows are from a file.
  // Returns where the record's partition continues after a row of the block. Requires a record.
  RecordPlace PlaceInStream(size_t row) const {
    return record->is_last && row + 1 == rows
               ? RecordPlace(record->offset + 1)
               : RecordPlace(record->offset, record->before + row + 1);
  }

  // Returns where the row after this one begins, without its number. Nothing: reading cannot begin
  // there.
  virtual std::optional<ReadPlace> PlaceAfter(size_t /*row*/) const { return std::nullopt; }
  // Returns a number that identifies a row. number: rows of the epoch before it.
  uint64_t NumberOf(size_t row, uint64_t number) const {
    return record ? Mix64(HashBytes(record->partition, record->offset) + record->before + row)
                  : number;
  }
};

// Parses the rows of a source's blocks.
//
// Threads: one owner. Parsers of a source and the source itself may be used at the same time.
class BlockParser {
 public:
  virtual ~BlockParser() = default;

  // Goes to the rows of a block, which must outlive their use. Errors: DATA_LOSS, with the file.
  virtual Status Take(RowBlock& block) = 0;

  // Sets label, dense columns and, through the consumer, ids of the builder's open sample; the
  // caller ends or abandons it. Errors: INVALID_ARGUMENT for a bad row, naming column, value and
  // remedy; FAILED_PRECONDITION from a plug-in that cannot continue.
  virtual Status Parse(size_t row, BatchBuilder& builder) = 0;

  // Adds the ids of columns that are parsed as a whole. kept: the rows of the builder's samples,
  // ascending.
  virtual void AddColumns(const std::vector<uint32_t>& /*kept*/, BatchBuilder& /*builder*/) {}

  // Frees the memory of the rows of blocks.
  virtual void Release() {}

  // Takes a warning of a cell of the last parsed row, naming column, value and remedy; empty if
  // there is none.
  virtual std::string TakeWarning() = 0;

  // Returns the row as a line of the format of LinesOf(), with the configured columns, in order.
  virtual std::string Text(size_t row) = 0;

  // Returns the place of the row: "file:line", or the like.
  virtual std::string Place(size_t row) const = 0;
};

// The rows of a data set's files, in order, in any format.
//
// Threads: one owner.
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual std::unique_ptr<RowBlock> NewBlock() const = 0;
  // Returns a parser of the source's blocks. consumer: gets the rows.
  virtual std::unique_ptr<BlockParser> NewParser(std::unique_ptr<RowConsumer> consumer) const = 0;

  // Reads the next rows, at least one and a bounded number of bytes. Returns false if there are no
  // more or, if the source is_idle(), none yet.
  // block: one from NewBlock(), with any content.
  // Errors: those of opening and reading, with the file and, if known, the row. No rows follow an
  // error.
  virtual StatusOr<bool> Read(RowBlock& block) = 0;
  virtual bool is_idle() const { return false; }

  // Leaves out as many of the next rows as is cheaper than Read(), at most `rows`. Returns their
  // number.
  virtual uint64_t Skip(uint64_t /*rows*/) { return 0; }

  // The next three describe the end of the last block that was read.
  virtual size_t files_opened() const = 0;
  virtual std::optional<ReadPlace> place() const { return std::nullopt; }
  virtual double part() const = 0;  // See RowBlock.
  // Adds a stream's offsets, without the rows of the last block.
  virtual void AddTo(ShareProgress& /*progress*/) {}
};

// Opens the first file, in the format of `config`. `ignore_labels` and others of the options apply.
// from: place() of an earlier source of the same files; a default one is their beginning.
// Errors: see OpenBatchReader().
StatusOr<std::unique_ptr<RowSource>> OpenRowSource(const DataConfig& config,
                                                   const std::vector<std::string>& files,
                                                   const ReadOptions& options,
                                                   const ReadPlace& from);

// Returns a source of a stream's records: see OpenStreamReader(). A block has rows of one record.
// Requires that every Read() gets the same block, since a record's value is valid until the next
// one.
StatusOr<std::unique_ptr<RowSource>> NewStreamSource(const DataConfig& config, RecordStream& stream,
                                                     StreamOffsets begin);

// Reads the rows of a source in batches, in order. consumers: one for each thread that parses rows;
// with one, the caller of Next() is the thread. make_builder: makes builders for the rows' samples.
std::unique_ptr<BatchReader> NewSourceReader(const DataConfig& config,
                                             std::unique_ptr<RowSource> source,
                                             std::vector<std::unique_ptr<RowConsumer>> consumers,
                                             const std::function<BatchBuilder()>& make_builder,
                                             size_t batch_size, const ReadOptions& options);

// Reads the rows of a source in batches, in the calling thread, with the features of a
// configuration. Errors: those of NewFeatureConsumer.
StatusOr<std::unique_ptr<BatchReader>> NewReaderOf(const DataConfig& config,
                                                   const std::vector<FeatureConfig>& features,
                                                   std::unique_ptr<RowSource> source,
                                                   size_t batch_size, const ReadOptions& options);

// Makes one consumer for each thread that parses rows.
using MakeConsumers = std::function<StatusOr<std::vector<std::unique_ptr<RowConsumer>>>()>;

// Opens the first of the files, and reads their rows in batches: see NewSourceReader().
StatusOr<std::unique_ptr<BatchReader>> OpenFileReader(
    const DataConfig& config, const MakeConsumers& make_consumers,
    const std::vector<std::string>& files, const std::function<BatchBuilder()>& make_builder,
    size_t batch_size, const ReadOptions& options);

}  // namespace simurgh
