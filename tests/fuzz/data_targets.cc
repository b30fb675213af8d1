// Data files: headers and rows of CSV; files of each format.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file_descriptor.h"
#include "base/log.h"
#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"
#include "data/reading/row_batcher.h"
#include "data/reading/row_lines.h"
#include "data/reading/row_text.h"
#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

std::string_view TextOf(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}

// --- csv_header: a header, and a row below it. Put in the configured order, the row is the same.

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

// --- files of a format: with reading that continues after a batch.

using Format = DataConfig::Format;

DataConfig ConfigOf(Format format, uint8_t options) {
  DataConfig config;
  config.format = format;
  config.on_bad_row = DataConfig::OnBadRow::kSkip;
  config.max_bad_share = 1;
  config.criteo.labels = 1 + options % 2;
  config.libffm_fields = format == Format::kLibffm ? 3 : 0;
  using Kind = ColumnConfig::Kind;
  if (HasPairs(config)) {
    config.columns = PairColumns(config);
  } else if (format != Format::kCriteo) {
    config.csv.header = (options & 1) != 0;
    config.csv.finds_header = (options & 2) != 0;
    config.columns = {{.name = "y", .kind = Kind::kLabel},
                      {.name = "x", .kind = Kind::kDense},
                      {.name = "a", .kind = Kind::kId, .separator = '|'},
                      {.name = "s", .kind = Kind::kSkip}};
  }
  return config;
}

struct ReadFile {
  std::vector<std::vector<uint64_t>> ids;  // By batch.
  std::vector<std::vector<float>> dense;
  std::vector<ShareProgress> progress;
  Status end;
};

ReadFile Read(const DataConfig& config, const std::string& path, size_t batch_size,
              const DataPosition* position) {
  FeatureConfig feature{.name = "f", .table = "f"};
  feature.column = config.format == Format::kCriteo   ? "C2"
                   : config.format == Format::kLibsvm ? "features"
                   : config.format == Format::kLibffm ? "field1"
                                                      : "a";
  if (HasPairs(config)) feature.weight_separator = ':';
  ReadFile read;
  const auto reader = OpenBatchReader(config, {feature}, {path}, batch_size, {.read = position});
  read.end = reader.status();
  while (read.end.ok()) {
    const auto batch = (*reader)->Next();
    read.end = batch.status();
    if (!batch.ok() || !batch->has_value()) break;
    SIMURGH_CHECK((*batch)->sparse->Validate().ok());
    read.ids.push_back({(*batch)->sparse->ids.begin(), (*batch)->sparse->ids.end()});
    read.dense.push_back((*batch)->dense.values);
    read.progress.push_back((*batch)->progress);
  }
  SIMURGH_CHECK(read.end.ok() || absl::IsInvalidArgument(read.end) || absl::IsDataLoss(read.end) ||
                absl::IsFailedPrecondition(read.end))
      << read.end;
  return read;
}

template <Format format>
void RunFile(Input input) {
  spdlog::set_level(spdlog::level::off);  // Most inputs have bad rows.
  SeedReader reader(input);
  const auto options = reader.Value<uint8_t>();
  const auto chosen = reader.Value<uint8_t>();
  const Input text = reader.rest();
  const FileDescriptor file(memfd_create("fuzz", MFD_CLOEXEC));
  SIMURGH_CHECK(write(file.number(), text.data(), text.size()) ==
                static_cast<ssize_t>(text.size()));
  const std::string path = "/proc/self/fd/" + std::to_string(file.number());
  const DataConfig config = ConfigOf(format, options);
  const size_t batch_size = 1 + options / 64;
  const ReadFile whole = Read(config, path, batch_size, nullptr);
  if (whole.progress.empty()) return;
  const size_t last = chosen % whole.progress.size();
  DataPosition position(Division{.batch_size = static_cast<uint32_t>(batch_size)});
  position.Advance(whole.progress[last]);
  const ReadFile rest = Read(config, path, batch_size, &position);
  SIMURGH_CHECK_EQ(rest.end.code(), whole.end.code());
  SIMURGH_CHECK_EQ(rest.ids.size(), whole.ids.size() - last - 1);
  for (size_t batch = 0; batch < rest.ids.size(); ++batch) {
    SIMURGH_CHECK(rest.ids[batch] == whole.ids[last + 1 + batch]);
    SIMURGH_CHECK(std::ranges::equal(std::as_bytes(std::span(rest.dense[batch])),
                                     std::as_bytes(std::span(whole.dense[last + 1 + batch]))));
  }
}

std::vector<Bytes> FileSeeds(const std::vector<std::string_view>& texts) {
  std::vector<Bytes> seeds;
  for (const std::string_view text : texts) {
    for (const uint8_t options : {0, 1, 2, 64}) {
      seeds.push_back(SeedWriter()
                          .Value(options)
                          .Value(static_cast<uint8_t>(seeds.size()))
                          .Rest(std::as_bytes(std::span(text)))
                          .bytes());
    }
  }
  return seeds;
}

std::vector<Bytes> CsvSeeds() {
  return FileSeeds({"y,x,a,s\n1,2,a|b,\r\n0,,\"q\n\"\"r\",\n\n1,3,\"open,\n0,4,c,\n1,5,d,"});
}

std::vector<Bytes> CriteoSeeds() {
  static const std::string row = [] {
    std::string text = "1";
    for (int i = 0; i < 39; ++i) text += "\t" + std::to_string(i);
    return text + "\n";
  }();
  static const std::string rows = row + "bad\n" + "0\t" + row + row;
  return FileSeeds({rows});
}

std::vector<Bytes> JsonSeeds() {
  return FileSeeds(
      {"{\"y\": 1, \"x\": 2e1, \"a\": [\"b\", 7, null]}\n{\"y\": true, \"a\": "
       "\"c\\u00e9|d\", \"o\": {\"a\": [{}]}}\n[1]\n{\"y\": 0}"});
}

std::vector<Bytes> LibsvmSeeds() {
  return FileSeeds({"+1 3:0.5 7:1\n-1\n\n0 qid:1 3:1\n1 18446744073709551615:-2e3\n"});
}

std::vector<Bytes> LibffmSeeds() {
  return FileSeeds({"1 1:5:0.5 0:6:1 1:7:2\n0 2:5:1\n1 3:1:1\n0"});
}

}  // namespace

std::vector<Target> DataTargets() {
  return {{"csv_header", RunCsvFile, CsvFileSeeds},
          {"csv_file", RunFile<Format::kCsv>, CsvSeeds},
          {"criteo_file", RunFile<Format::kCriteo>, CriteoSeeds},
          {"json_file", RunFile<Format::kJson>, JsonSeeds},
          {"libsvm_file", RunFile<Format::kLibsvm>, LibsvmSeeds},
          {"libffm_file", RunFile<Format::kLibffm>, LibffmSeeds}};
}

}  // namespace simurgh::fuzz
