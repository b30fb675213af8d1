// Data files: headers and rows of CSV.

#include <string_view>

#include "simurgh/base/check.h"
#include "simurgh/data/row_batcher.h"
#include "simurgh/data/row_lines.h"
#include "simurgh/data/row_text.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

std::string_view TextOf(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// --- csv_file: a header, and a row below it. Put in the configured order, the row is the same.

void RunCsvFile(Input input) {
  SeedReader reader(input);
  const auto options = reader.Value<uint8_t>();
  const Bytes header = reader.Part();
  const std::string_view row = TextOf(reader.rest());
  DataConfig config;
  config.csv.header = true;
  config.csv.strict = (options & 1) != 0;
  config.csv.separator = (options & 2) != 0 ? '\t' : ',';
  const bool needs_labels = (options & 4) != 0;
  using Kind = ColumnConfig::Kind;
  config.columns = {{.name = "y", .kind = Kind::kLabel},
                    {.name = "x", .kind = Kind::kDense},
                    {.name = "a", .kind = Kind::kId, .header_name = "the \"a\", b"},
                    {.name = "s", .kind = Kind::kSkip},
                    {.name = "w", .kind = Kind::kWeight}};
  if ((options & 8) != 0) {
    config.columns[0].label_values = ColumnConfig::LabelValues::kNumbers;
  }
  const auto columns = FindColumns(config, TextOf(header), needs_labels);
  if (!columns.ok()) {
    SIMURGH_CHECK(absl::IsInvalidArgument(columns.status())) << columns.status();
    return;
  }
  const FileColumns* const file = columns->has_value() ? &**columns : nullptr;
  const FeatureConfig feature{.name = "a", .column = "a", .table = "a"};
  auto batcher = RowBatcher::Create(config, {feature}, !needs_labels);
  SIMURGH_CHECK(batcher.ok());
  const Status added = batcher->AddLine(row, file);
  SIMURGH_CHECK(added.ok() || absl::IsInvalidArgument(added)) << added;
  if (file == nullptr || !added.ok()) return;
  auto ordered = RowBatcher::Create(config, {feature}, !needs_labels);
  SIMURGH_CHECK(ordered->AddLine(InConfiguredOrder(config, *file, row)).ok());
  const Batch one = batcher->Build().value();
  const Batch other = ordered->Build().value();
  SIMURGH_CHECK(one.dense.values == other.dense.values);
  SIMURGH_CHECK(one.dense.labels == other.dense.labels);
  SIMURGH_CHECK(one.sparse->ids == other.sparse->ids);
}

std::vector<Bytes> CsvFileSeeds() {
  const auto seed = [](uint8_t options, std::string_view header, std::string_view row) {
    return SeedWriter()
        .Value(options)
        .Part(std::as_bytes(std::span(header)))
        .Rest(std::as_bytes(std::span(row)))
        .bytes();
  };
  return {seed(4, "x,\"the \"\"a\"\", b\",y,w", "1.5,\"a,\"\"b\",1,1"),
          seed(0, "more,\"the \"\"a\"\", b\",x", ",a,2"),
          seed(7, "y\tx\t\"the \"\"a\"\", b\"\ts\tw", "1\t2\tb\t\t0.5"),
          seed(12, "w,x,\"the \"\"a\"\", b\",y", "2,1.5,a,-7.25")};
}

}  // namespace

std::vector<Target> DataTargets() { return {{"csv_file", RunCsvFile, CsvFileSeeds}}; }

}  // namespace simurgh::fuzz
