// Reads files into batches and prints the seconds that it took. See --help.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "data/batch/data_position.h"
#include "data/reading/batch_reader.h"

namespace simurgh::bench {
namespace {

constexpr char kUsage[] =
    R"(read_batches: reads data files into batches of 4096 samples

Usage: read_batches parquet|tsv COLUMNS THREADS SHUFFLE FILE...

The files have a label y and id columns c0, c1, and so on. TSV has them in this order and has no
header. THREADS is data.threads, and SHUFFLE is data.shuffle. Prints rows and seconds, without those of loading
libsimurgh_arrow.so.
)";

constexpr size_t kBatch = 4'096;

struct Input {
  DataConfig data;
  std::vector<FeatureConfig> features;
};

Input InputOf(const std::string& format, size_t columns) {
  Input input;
  input.data.format = format == "tsv" ? DataConfig::Format::kCsv : DataConfig::Format::kParquet;
  input.data.csv.separator = '\t';
  input.data.columns.push_back({.name = "y", .kind = ColumnConfig::Kind::kLabel});
  for (size_t c = 0; c < columns; ++c) {
    const std::string name = absl::StrCat("c", c);
    input.data.columns.push_back({.name = name, .kind = ColumnConfig::Kind::kId});
    input.features.push_back({.name = name, .column = name, .table = name});
    input.features.back().table_index = static_cast<uint32_t>(c);
  }
  return input;
}

uint64_t RowsOf(const Input& input, const std::vector<std::string>& files, uint32_t threads,
                uint64_t window) {
  DataPosition position;
  position.SetWindow(window);
  const auto reader = OpenBatchReader(input.data, input.features, files, kBatch,
                                      {.read = &position, .threads = threads});
  SIMURGH_CHECK(reader.ok()) << reader.status();
  uint64_t rows = 0;
  for (;;) {
    const auto batch = (*reader)->Next();
    SIMURGH_CHECK(batch.ok()) << batch.status();
    if (!batch->has_value()) return rows;
    rows += (*batch)->size();
  }
}

int Run(const std::vector<std::string>& words) {
  uint32_t columns = 0;
  uint32_t threads = 0;
  uint64_t window = 0;
  if (words.size() < 5 || (words[0] != "parquet" && words[0] != "tsv") ||
      !absl::SimpleAtoi(words[1], &columns) || !absl::SimpleAtoi(words[2], &threads) ||
      threads == 0 || !absl::SimpleAtoi(words[3], &window)) {
    std::fputs(kUsage, words.size() == 1 && words[0] == "--help" ? stdout : stderr);
    return words.size() == 1 && words[0] == "--help" ? 0 : 2;
  }
  const Input input = InputOf(words[0], columns);
  SIMURGH_CHECK(OpenBatchReader(input.data, input.features, {words[4]}, kBatch).ok());
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t rows = RowsOf(input, {words.begin() + 4, words.end()}, threads, window);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%llu %.6f\n", static_cast<unsigned long long>(rows), seconds.count());
  return 0;
}

}  // namespace
}  // namespace simurgh::bench

int main(int argc, char** argv) { return simurgh::bench::Run({argv + 1, argv + argc}); }
