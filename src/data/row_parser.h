#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"
#include "simurgh/config/data_config.h"
#include "simurgh/config/feature_config.h"
#include "simurgh/data/batch_builder.h"

namespace simurgh {

// Turns a line of one format into a sample.
//
// Threads: one owner.
class RowParser {
 public:
  virtual ~RowParser() = default;

  // Sets label, dense columns and ids of the builder's open sample; the caller ends or abandons it.
  // Errors: INVALID_ARGUMENT naming column, value and remedy; the caller adds file and line.
  virtual Status Parse(std::string_view line, BatchBuilder& builder) = 0;
};

// Cells of CSV. An id is HashBytes of a cell's text, or of each of its parts; a cell in quotes ("")
// may hold separators and, doubled, quotes, but no line end.
// Errors: INVALID_ARGUMENT when the columns or what features name do not make sense.
StatusOr<std::unique_ptr<RowParser>> NewCsvParser(const CsvConfig& config,
                                                  const std::vector<FeatureConfig>& features);

// Cells of the Criteo layout. An id is the value of its hexadecimal digits.
// Errors: as NewCsvParser.
StatusOr<std::unique_ptr<RowParser>> NewCriteoParser(const std::vector<FeatureConfig>& features);

// The dense columns of the Criteo layout: I1 to I13.
std::vector<std::string> CriteoDenseColumns();

// Where a column's ids go.
struct IdTarget {
  size_t feature;
  HashStackConfig hash_stack;
};

// Per column, the features that read it; a feature without column reads the one of its own name.
// Errors: INVALID_ARGUMENT when there is none.
StatusOr<std::vector<std::vector<IdTarget>>> RouteFeatures(
    const std::vector<std::string>& columns, const std::vector<FeatureConfig>& features);

// Adds an id to every target, folded by its hash stack if it has one.
void AddIdToTargets(uint64_t id, const std::vector<IdTarget>& targets, BatchBuilder& builder);

// `cell` for a message: quoted, escaped, cut where it is long.
std::string Quoted(std::string_view cell);

}  // namespace simurgh
