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
    "datagen: writes synthetic click data in the Criteo layout, of known difficulty\n\n"
    "Usage: datagen --output FILE --samples N [options]\n\n";

constexpr char kNotes[] =
    "Output depends only on the seed. Use disjoint ranges for training and test data:\n\n"
    "  datagen --output train.tsv.zst --samples 2000000 --distinct-ids 1000000\n"
    "  datagen --output test.tsv.zst  --samples 200000  --distinct-ids 1000000 --first 2000000\n\n"
    "The report on stdout has the AUC of the teacher, which bounds that of any model, of the\n"
    "teacher without feature interactions, and of its dense part alone.\n\n"
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
                            "write this file; compress it if its name ends in .zst")(
      "samples", po::value<int64_t>()->value_name("N")->notifier([&](int64_t value) {
        counts.samples = value;
      }),
      "write N samples")("first", count(counts.first), "start at sample N")(
      "seed", count(counts.seed), "choose the teacher, the ids and the samples")(
      "distinct-ids", count(counts.distinct_ids),
      "set the number of distinct ids over all features; 0: use --cardinality-scale")(
      "cardinality-scale", real(generator.cardinality_scale, "1"),
      "scale the 33.8 million distinct ids of Criteo's data; at least 3 a feature")(
      "zipf-exponent", real(generator.zipf_exponent, "1.05"),
      "set the exponent of each feature's id distribution")(
      "missing", real(generator.missing, "0.03"), "set the probability of an empty cell")(
      "id-digits", po::value(&generator.id_digits)->value_name("8|16")->default_value(16),
      "write ids with 8 or 16 hexadecimal digits")(
      "labels", count(counts.labels), "write N label columns at the start of each line")(
      "report-samples", count(counts.report_samples),
      "compute the AUCs of the report over the first N samples")(
      "threads", count(counts.threads), "use N threads; the file does not depend on them")(
      "json", po::bool_switch(&options.json), "print the report as one line of JSON")(
      "help", "print this help")("version", "print the version");
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
