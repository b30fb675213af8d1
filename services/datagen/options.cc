#include "services/datagen/options.h"

#include <algorithm>
#include <ostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "services/runtime/command_line.h"
#include "simurgh/config/data_config.h"

namespace simurgh {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "datagen: writes click-like samples in the Criteo layout, of known difficulty\n\n"
    "Usage: datagen --output FILE --samples N [options]\n\n";

constexpr char kNotes[] =
    "One seed is one teacher, and sample n of it is always the same. So training and test data "
    "are\n"
    "two ranges of numbers:\n\n"
    "  datagen --output train.tsv.zst --samples 2000000 --distinct-ids 1000000\n"
    "  datagen --output test.tsv.zst  --samples 200000  --distinct-ids 1000000 --first 2000000\n\n"
    "At the end stdout tells the AUC of the teacher, which no model exceeds but by chance, of the\n"
    "teacher without interactions of features, and of its dense part alone.\n\n"
    "Exit codes: 0 done, 2 bad options, 3 failed while writing.\n";

// Counts are signed while they are parsed: "-1" would otherwise be read as a large number.
struct Counts {
  int64_t seed = 1;
  std::optional<int64_t> samples;
  int64_t first = 0;
  int64_t labels = 1;
  int64_t distinct_ids = 0;
  int64_t report_samples = 1'000'000;
  int64_t threads = std::max(1U, std::thread::hardware_concurrency());
};

po::options_description Describe(DatagenOptions& options, Counts& counts) {
  GeneratorConfig& generator = options.generator;
  po::options_description description("Options");
  const auto count = [](int64_t& value) {
    return po::value(&value)->value_name("N")->default_value(value);
  };
  const auto real = [](double& value, const std::string& shown) {
    return po::value(&value)->value_name("X")->default_value(value, shown);
  };
  description.add_options()("output", po::value(&options.output)->value_name("FILE"),
                            "file to write; compressed when its name ends in .zst")(
      "samples", po::value<int64_t>()->value_name("N")->notifier([&](int64_t value) {
        counts.samples = value;
      }),
      "how many samples to write")("first", count(counts.first), "number of the first sample")(
      "seed", count(counts.seed), "chooses teacher, ids and samples")(
      "distinct-ids", count(counts.distinct_ids),
      "ids of all features together; 0: as --cardinality-scale says")(
      "cardinality-scale", real(generator.cardinality_scale, "1"),
      "times the 33.8 million ids of Criteo's data, at least 3 a feature")(
      "zipf-exponent", real(generator.zipf_exponent, "1.05"), "of each feature's ids")(
      "missing", real(generator.missing, "0.03"), "probability that a cell is empty")(
      "id-digits", po::value(&generator.id_digits)->value_name("8|16")->default_value(16),
      "hexadecimal digits of an id")("labels", count(counts.labels),
                                     "of a sample; the lines then begin with as many columns")(
      "report-samples", count(counts.report_samples),
      "the AUCs are those of the first N samples written")(
      "threads", count(counts.threads), "threads that generate; the file does not depend on them")(
      "json", po::bool_switch(&options.json), "prints the report as one line of JSON")(
      "help", "prints this and exits")("version", "prints the version and exits");
  return description;
}

Status TakeCounts(const Counts& counts, DatagenOptions& options) {
  constexpr int64_t kMaxThreads = 1024;
  const auto negative = [](const char* name, int64_t value) {
    return OptionProblem(absl::StrCat("--", name, " is ", value, ", must not be negative"));
  };
  if (!counts.samples.has_value()) return OptionProblem("--samples N is missing");
  const int64_t samples = *counts.samples;
  if (samples <= 0) {
    return OptionProblem(absl::StrCat("--samples is ", samples, ", must be at least 1"));
  }
  if (counts.seed < 0) return negative("seed", counts.seed);
  if (counts.first < 0) return negative("first", counts.first);
  if (counts.distinct_ids < 0) return negative("distinct-ids", counts.distinct_ids);
  if (counts.report_samples < 0) return negative("report-samples", counts.report_samples);
  if (counts.threads < 1 || counts.threads > kMaxThreads) {
    return OptionProblem(
        absl::StrCat("--threads is ", counts.threads, ", must be 1 to ", kMaxThreads));
  }
  if (counts.labels < 1 || counts.labels > kMaxTasks) {
    return OptionProblem(absl::StrCat("--labels is ", counts.labels, ", must be 1 to ", kMaxTasks));
  }
  options.generator.labels = static_cast<uint32_t>(counts.labels);
  options.samples = static_cast<uint64_t>(samples);
  options.first = counts.first;
  options.report_samples = std::min(counts.report_samples, samples);
  options.threads = static_cast<uint32_t>(counts.threads);
  options.generator.seed = counts.seed;
  options.generator.distinct_ids = counts.distinct_ids;
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::optional<DatagenOptions>> ParseDatagenOptions(int argc, const char* const* argv,
                                                            std::ostream& out) {
  DatagenOptions options;
  Counts counts;
  const po::options_description description = Describe(options, counts);
  SIMURGH_ASSIGN_OR_RETURN(
      const bool runs, ParseCommandLine(argc, argv, {"datagen", kUsage, kNotes}, description, out));
  if (!runs) return std::nullopt;
  if (options.output.empty()) return OptionProblem("--output FILE is missing");
  SIMURGH_RETURN_IF_ERROR(TakeCounts(counts, options));
  return options;
}

}  // namespace simurgh
