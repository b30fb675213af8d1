#include "bench/micro/table/options.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "bench/support/flags.h"
#include "table/table.h"

namespace simurgh::bench {
namespace {

constexpr char kAbout[] =
    R"(bench_table: throughput of one partition's table relative to the machine's memory

Usage: bench_table [options]

limit_gather and limit_update copy and compute the same by known row numbers, without index and
headers. Their memory is touched, in huge pages. flat_hash_map is absl's with prefetch, over the
same rows. persia is an unordered_map with a vector per row behind 100 locks, locked for every id.
A ratio is the median over the turns of rows per second over the limit's: limit_gather's for pull,
insert and evict, limit_update's for push. mixed is a pull and a push of every batch, with 1/64 new
ids and eviction.

bare_pull and bare_push touch the same cache lines as pull and push in plain loops with known row
numbers. They are no bound: loops specialised for one row size may be faster.

growth pulls only new ids on untouched memory and shows the time of requests. Times above the median
are mostly waits for splits, pages or a core. The thread's CPU time (cpu) excludes waits for a core.
shared_pull and shared_push use a table in a file of tmpfs or hugetlbfs. small_ids and spread_ids
pull and push the same draws (zipf, 8 times as many ids as rows) in two tables. The ratio is to
small_ids.

Memory: about (6 * dim + 60) * 4 bytes per row, for each thread's partition, and (2 * dim + 7) * 4
more with --bare-table.

Exit codes: 0 done, 2 bad options.
)";

constexpr std::pair<std::string_view, RowPrecision> kPrecisions[] = {
    {"f32", RowPrecision::kF32}, {"bf16", RowPrecision::kBf16}, {"f16", RowPrecision::kF16}};

struct NamedOptimizer {
  std::string_view name;
  SparseOptimizerConfig config;
};
using Kind = SparseOptimizerConfig::Kind;
constexpr NamedOptimizer kOptimizers[] = {
    {"sgd", {.kind = Kind::kSgd}},
    {"adagrad", {.kind = Kind::kAdagrad}},
    {"row_wise_adagrad", {.kind = Kind::kAdagrad, .row_wise = true}},
    {"adam", {.kind = Kind::kAdam}},
    {"ftrl", {.kind = Kind::kFtrl}}};

template <typename List, typename Projection>
std::vector<std::string> NamesOf(const List& list, Projection projection) {
  std::vector<std::string> names;
  for (const auto& each : list) names.emplace_back(std::invoke(projection, each));
  return names;
}

}  // namespace

std::string_view NameOf(RowPrecision precision) {
  return std::ranges::find_if(kPrecisions,
                              [&](const auto& named) { return named.second == precision; })
      ->first;
}

SparseOptimizerConfig OptimizerNamed(std::string_view name) {
  return std::ranges::find(kOptimizers, name, &NamedOptimizer::name)->config;
}

uint64_t TableBenchOptions::RowsFor(uint32_t dim) const {
  constexpr uint64_t kWeightBytes = 2'560'000'000;
  constexpr uint64_t kMaxRows = 20'000'000;
  if (rows != 0) return rows;
  const uint64_t by_dim = std::min(kMaxRows, kWeightBytes / (dim * sizeof(float)));
  return quick ? by_dim / 100 : by_dim;
}

TableBenchOptions ParseTableBenchOptions(int argc, const char* const* argv) {
  constexpr double kMaxRows = uint64_t{1} << 31;
  TableBenchOptions options;
  std::vector<std::string> distributions;
  std::vector<std::string> precisions;
  bool no_insert = false;
  bool no_rivals = false;
  Flags flags("bench_table", kAbout);
  flags.Numbers("dim", options.dims, 1, TableConfig::kMaxDim, {"8,16,64,128"}, "dims of rows");
  flags.Number("rows", options.rows, 0, kMaxRows, {"0"},
               "rows per partition; 0 is 2.5 GB of weights, up to 20 million rows");
  flags.Words("distribution", distributions, {"uniform", "zipf"}, {"uniform,zipf"},
              "distributions of ids (zipf has exponent 1.05)");
  flags.Words("precision", precisions, NamesOf(kPrecisions, [](const auto& p) { return p.first; }),
              {"f32"}, "precisions of weights");
  flags.Words("optimizer", options.optimizers, NamesOf(kOptimizers, &NamedOptimizer::name),
              {"adagrad"}, "optimizers");
  flags.Number("threads", options.threads, 1, 256, {"1"},
               "partitions to measure concurrently, besides one alone");
  flags.Number("batch", options.batch, 1, 65'535, {"4096"}, "ids per request");
  flags.Number("turns", options.turns, 1, 1000, {"5", "2"}, "repetitions of each measurement");
  flags.Number("growth", options.growth_rows, 0, kMaxRows, {"0"},
               "rows to insert into a table on untouched memory");
  flags.Switch("bare-table", options.bare_table, "also measure loops with known row numbers (f32)");
  flags.Switch("id-spaces", options.id_spaces,
               "also measure small ids and ids spread over 2^63, with eviction");
  flags.File("shared", options.shared_directory,
             "also measure a table in a file of this directory, a tmpfs or hugetlbfs");
  flags.Switch("no-insert", no_insert, "skip filling an empty table");
  flags.Switch("no-rivals", no_rivals, "skip flat_hash_map and persia");
  flags.Parse(argc, argv);
  for (const std::string& name : distributions) {
    options.distributions.push_back(name == "zipf" ? Distribution::kZipf : Distribution::kUniform);
  }
  for (const std::string& name : precisions) {
    options.precisions.push_back(
        std::ranges::find_if(kPrecisions, [&](const auto& p) { return p.first == name; })->second);
  }
  options.insert = !no_insert;
  options.rivals = !no_rivals;
  options.json = flags.json();
  options.quick = flags.quick();
  for (const uint32_t dim : options.dims) {
    // Distinct ids are drawn by rejection.
    if (options.RowsFor(dim) >= 16 * options.batch) continue;
    flags.Fail(absl::StrCat("--rows: ", options.RowsFor(dim),
                            " is too few; use at least 16 batches, ", 16 * options.batch));
  }
  return options;
}

}  // namespace simurgh::bench
