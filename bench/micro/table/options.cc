#include "bench/micro/table/options.h"

#include <algorithm>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/value_semantic.hpp>

#include "services/runtime/command_line.h"
#include "simurgh/table/table.h"

namespace simurgh::bench {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "bench_table: how near one partition's table comes to what the machine's memory allows\n\n"
    "Usage: bench_table [options]\n\n";

constexpr char kNotes[] =
    "limit_gather and limit_update do the same copies and the same arithmetic by known row\n"
    "number, without index or header, on touched memory in huge pages. flat_hash_map is absl's,\n"
    "over the same rows, with prefetch; persia is an unordered_map with a vector a row behind\n"
    "100 locks, taken for every id. A ratio is the median over the turns of rows a second over\n"
    "the limit's: limit_gather's for pull, insert and evict, limit_update's for push. mixed is a\n"
    "pull and a push of every batch, a 64th of its ids new, with eviction.\n\n"
    "bare_pull and bare_push touch the same cache lines as pull and push, an index's and then\n"
    "those of rows behind headers, in plain loops that know the numbers of the rows. That is no\n"
    "bound: loops made for rows of one size may be faster.\n\n"
    "growth pulls new ids only, on memory that nobody has touched, and shows how long requests\n"
    "take: what lies above the median is mostly what they wait for splits and pages, or for a\n"
    "core, which the thread's own time (cpu) leaves out. shared_pull and shared_push are those of\n"
    "a table in a file of tmpfs or hugetlbfs. small_ids and spread_ids are\n"
    "pulls and pushes of the same draws (zipf, of 8 times as many ids as rows) in two tables; the\n"
    "ratio is to small_ids.\n\n"
    "Memory: about (6 * dim + 60) * 4 bytes a row, for each thread's partition, and for\n"
    "--bare-table (2 * dim + 7) * 4 more.\n\n"
    "Exit codes: 0 done, 2 bad options.\n";

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

struct Given {
  std::string dims = "8,16,64,128";
  std::string precisions = "f32";
  std::string optimizers = "adagrad";
  std::string distributions = "uniform,zipf";
  int64_t rows = 0;
  int64_t threads = 1;
  int64_t batch = 4096;
  int64_t turns = 5;
  int64_t growth = 0;
  bool no_insert = false;
  bool no_rivals = false;
};

po::options_description Describe(TableBenchOptions& options, Given& given) {
  po::options_description description("Options");
  const auto count = [](int64_t& value) {
    return po::value(&value)->value_name("N")->default_value(value);
  };
  const auto list = [](std::string& value) {
    return po::value(&value)->value_name("LIST")->default_value(value);
  };
  description.add_options()("dim", list(given.dims), "dims, 1 to 1024")(
      "rows", count(given.rows), "rows of a partition; 0: 2.5 GB of weights, at most 20 million")(
      "distribution", list(given.distributions), "uniform, zipf (exponent 1.05)")(
      "precision", list(given.precisions), "of weights: f32, bf16, f16")(
      "optimizer", list(given.optimizers), "sgd, adagrad, row_wise_adagrad, adam, ftrl")(
      "threads", count(given.threads), "partitions at once, each on a core, beside one alone")(
      "batch", count(given.batch), "ids of a request")("turns", count(given.turns),
                                                       "times that everything is measured")(
      "growth", count(given.growth), "rows that a table on untouched memory takes in; 0: none")(
      "bare-table", po::bool_switch(&options.bare_table),
      "also measures what a table comes to that knows its rows (f32)")(
      "id-spaces", po::bool_switch(&options.id_spaces),
      "also measures small ids beside ids spread over 2^63, while rows come and go")(
      "shared", po::value(&options.shared_directory)->value_name("DIRECTORY"),
      "also measures a table in a file of this directory, a tmpfs or hugetlbfs")(
      "no-insert", po::bool_switch(&given.no_insert), "leaves out the filling of an empty table")(
      "no-rivals", po::bool_switch(&given.no_rivals), "leaves out flat_hash_map and persia")(
      "quick", po::bool_switch(&options.quick), "a hundredth of the rows, two turns")(
      "json", po::bool_switch(&options.json), "one object a line instead of a table")(
      "help", "prints this and exits")("version", "prints the version and exits");
  return description;
}

std::string_view Std(absl::string_view text) { return {text.data(), text.size()}; }

Status TakeLists(const Given& given, TableBenchOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(options.dims, ParseNumbers("--dim", given.dims, Table::kMaxDim));
  options.distributions.clear();
  for (const absl::string_view word : absl::StrSplit(given.distributions, ',')) {
    if (word != "uniform" && word != "zipf") {
      return OptionProblem(
          absl::StrCat("--distribution: '", word, "' is neither uniform nor zipf"));
    }
    options.distributions.push_back(word == "zipf" ? Distribution::kZipf : Distribution::kUniform);
  }
  options.precisions.clear();
  for (const absl::string_view word : absl::StrSplit(given.precisions, ',')) {
    const auto* const found = std::ranges::find_if(
        kPrecisions, [&](const auto& precision) { return precision.first == Std(word); });
    if (found == std::end(kPrecisions)) {
      return OptionProblem(absl::StrCat("--precision: '", word, "' is not f32, bf16 or f16"));
    }
    options.precisions.push_back(found->second);
  }
  options.optimizers.clear();
  for (const absl::string_view word : absl::StrSplit(given.optimizers, ',')) {
    if (std::ranges::find(kOptimizers, Std(word), &NamedOptimizer::name) == std::end(kOptimizers)) {
      return OptionProblem(absl::StrCat("--optimizer: '", word, "' is unknown"));
    }
    options.optimizers.emplace_back(word);
  }
  return absl::OkStatus();
}

Status TakeCounts(const Given& given, TableBenchOptions& options) {
  constexpr int64_t kMaxRows = int64_t{1} << 31;
  if (given.batch < 1 || given.batch > 65'535) return OptionProblem("--batch must be 1 to 65535");
  if (given.turns < 1 || given.turns > 1000) return OptionProblem("--turns must be 1 to 1000");
  if (given.threads < 1 || given.threads > 256) return OptionProblem("--threads must be 1 to 256");
  if (given.rows < 0 || given.rows > kMaxRows) {
    return OptionProblem(absl::StrCat("--rows must be 0 to ", kMaxRows));
  }
  if (given.growth < 0 || given.growth > kMaxRows) {
    return OptionProblem(absl::StrCat("--growth must be 0 to ", kMaxRows));
  }
  options.rows = given.rows;
  options.growth_rows = given.growth;
  options.batch = given.batch;
  options.turns = options.quick ? std::min<int64_t>(2, given.turns) : given.turns;
  options.threads = given.threads;
  options.insert = !given.no_insert;
  options.rivals = !given.no_rivals;
  for (const uint32_t dim : options.dims) {
    // Distinct ids are drawn by rejection.
    if (options.RowsFor(dim) < 16 * options.batch) {
      return OptionProblem(
          absl::StrCat("--rows must be at least 16 batches, ", 16 * options.batch));
    }
  }
  return absl::OkStatus();
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

StatusOr<std::optional<TableBenchOptions>> ParseTableBenchOptions(int argc, const char* const* argv,
                                                                  std::ostream& out) {
  TableBenchOptions options;
  Given given;
  const po::options_description description = Describe(options, given);
  SIMURGH_ASSIGN_OR_RETURN(
      const bool go_on,
      ParseCommandLine(argc, argv, {"bench_table", kUsage, kNotes}, description, out));
  if (!go_on) return std::nullopt;
  SIMURGH_RETURN_IF_ERROR(TakeLists(given, options));
  SIMURGH_RETURN_IF_ERROR(TakeCounts(given, options));
  return options;
}

}  // namespace simurgh::bench
