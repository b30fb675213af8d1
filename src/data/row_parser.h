#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/process/row_cells.h"
#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/data/batch_builder.h"

namespace simurgh {

// Turns a line of one format into a sample.
//
// Threads: one owner.
class RowParser {
 public:
  virtual ~RowParser() = default;

  // Sets label, dense columns and, through the sink, ids of the builder's open sample; the caller
  // ends or abandons it.
  // Errors: INVALID_ARGUMENT naming column, value and remedy; the caller adds file and line.
  virtual Status Parse(std::string_view line, BatchBuilder& builder) = 0;
};

// Makes who takes the cells, given the names of the columns in their order.
using ConsumerFactory =
    std::function<StatusOr<std::unique_ptr<RowConsumer>>(const std::vector<std::string>& columns)>;

// Cells of CSV; a cell in quotes ("") may hold separators and, doubled, quotes, but no line end. A
// cell that reads as missing has no parts, nor do parts that do.
// Errors: INVALID_ARGUMENT when the columns do not make sense or the sink refuses them.
StatusOr<std::unique_ptr<RowParser>> NewCsvParser(const CsvConfig& config,
                                                  const ConsumerFactory& sink);

// Cells of the Criteo layout. Parts of id columns are numbers, by their hexadecimal digits.
// Errors: as NewCsvParser.
StatusOr<std::unique_ptr<RowParser>> NewCriteoParser(const CriteoConfig& config,
                                                     const ConsumerFactory& sink);

// The dense columns of the Criteo layout, I1 to I13, as they are scaled.
std::vector<ColumnConfig> CriteoDense(const CriteoConfig& config);

// Their names.
std::vector<std::string> CriteoDenseColumns();
std::vector<std::string> CriteoLabelColumns(const CriteoConfig& config);

// `cell` for a message: quoted, escaped, cut where it is long.
std::string Quoted(std::string_view cell);

// The values of these columns of a row for a message, each as Quoted, the first few of many.
std::string QuotedValues(const RowCells& cells, std::span<const size_t> columns);

}  // namespace simurgh
