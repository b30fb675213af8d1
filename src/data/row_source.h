#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/process/row_cells.h"
#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/data/batch_builder.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/data/data_position.h"
#include "simurgh/data/record_stream.h"

namespace simurgh {

// The rows of a data set's files, in order, in any format.
//
// Threads: one owner.
class RowSource {
 public:
  virtual ~RowSource() = default;

  // Goes to the next row. False: there are no more or, if the source is_idle(), none yet.
  // Errors: of opening and reading, with the file and, if known, the row.
  virtual StatusOr<bool> Next() = 0;
  virtual bool is_idle() const { return false; }

  // Leaves out as many of the next rows as is cheaper than Next(), at most `rows`.
  virtual uint64_t Skip(uint64_t /*rows*/) { return 0; }

  // Sets label, dense columns and, through the consumer, ids of the builder's open sample; the
  // caller ends or abandons it. At most once a row. Errors: INVALID_ARGUMENT for a bad row, naming
  // column, value and remedy; FAILED_PRECONDITION from a plug-in that cannot continue.
  virtual Status Parse(BatchBuilder& builder) = 0;

  // Takes a warning of a cell of the parsed row, naming column, value and remedy; empty if there
  // is none.
  virtual std::string TakeWarning() = 0;

  // The row as a line of the format of LinesOf(), with the configured columns, in order.
  virtual std::string Text() = 0;

  // Where the row is: "file:line", or the like.
  virtual std::string Place() const = 0;

  // Adds a stream's offsets after the rows so far. Next() follows.
  virtual void AddTo(ShareProgress& /*progress*/) {}
  // A number that identifies the row. row: rows before it.
  virtual uint64_t number(uint64_t row) const { return row; }
  // Where the row after this one begins, without its number. Nothing: reading cannot begin there.
  virtual std::optional<ReadPlace> place() const { return std::nullopt; }

  virtual size_t files_opened() const = 0;
  // Share of all rows that those so far are, from 0 to 1; 0: unknown.
  virtual double part() const = 0;
};

// Opens the first file, in the format of `config`. The consumer gets the rows that are parsed.
// from: place() of an earlier source of the same files; that of a new one is their begin.
// Errors: see OpenBatchReader().
StatusOr<std::unique_ptr<RowSource>> OpenRowSource(const DataConfig& config,
                                                   std::unique_ptr<RowConsumer> consumer,
                                                   const std::vector<std::string>& files,
                                                   const ReadOptions& options,
                                                   const ReadPlace& from);

// Of the records of a stream: see OpenStreamReader().
StatusOr<std::unique_ptr<RowSource>> NewStreamSource(const DataConfig& config, RecordStream& stream,
                                                     StreamOffsets begin,
                                                     std::unique_ptr<RowConsumer> consumer);

}  // namespace simurgh
