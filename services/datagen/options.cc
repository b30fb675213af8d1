#include "services/datagen/options.h"

#include <algorithm>
#include <limits>
#include <map>
#include <ostream>
#include <thread>

#include "absl/strings/str_cat.h"
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "services/runtime/command_line.h"

namespace simurgh {
namespace {

namespace po = boost::program_options;

constexpr char kUsage[] =
    "datagen: writes synthetic click data of known difficulty, in the Criteo layout or as CSV\n\n"
    "Usage: datagen --output FILE --samples N [options]\n\n";

constexpr char kNotes[] =
    "Output depends only on the seed. Use disjoint ranges for training and test data:\n\n"
    "  datagen --output train.tsv.zst --samples 2000000 --distinct-ids 1000000\n"
    "  datagen --output test.tsv.zst  --samples 200000  --distinct-ids 1000000 --first 2000000\n\n"
    "The report on stdout has the AUC of the teacher, which bounds that of any model, of the\n"
    "teacher without feature interactions, and of its dense part alone.\n\n"
    "The teachers `sequence` (columns item, seen, label) and `experts` (segment, x1 to x8, y1, "
    "y2)\n"
    "have the labels of config/sequence.yaml and config/experts.yaml, which need target attention\n"
    "and a mixture of experts. Of the options for ids, labels and cells they use none.\n\n"
    "Exit codes: 0 done, 2 bad options, 3 failed while writing.\n";

po::options_description Describe(DatagenOptions& options) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  GeneratorConfig& generator = options.generator;
  // Signed while parsed: "-1" would otherwise be a large number.
  const auto count = [](const char* name, auto& field, int64_t low, int64_t high) {
    return po::value<int64_t>()->value_name("N")->notifier([=, &field](int64_t value) {
      if (value < low || value > high) {
        const std::string range =
            high == kAny ? absl::StrCat(low, " or more") : absl::StrCat(low, " to ", high);
        throw po::error(absl::StrCat("--", name, ": ", value, " is out of range; use ", range));
      }
      field = value;
    });
  };
  const auto real = [](double& value, const std::string& shown) {
    return po::value(&value)->value_name("X")->default_value(value, shown);
  };
  po::options_description description("Options");
  description.add_options()("output", po::value(&options.output)->value_name("FILE")->required(),
                            "write this file; compress it if its name ends in .zst")(
      "samples", count("samples", options.samples, 1, kAny)->required(), "write N samples")(
      "first", count("first", options.first, 0, kAny)->default_value(0), "start at sample N")(
      "seed", count("seed", generator.seed, 0, kAny)->default_value(1),
      "choose the teacher, the ids and the samples")(
      "teacher",
      po::value<std::string>()->value_name("NAME")->default_value("clicks")->notifier(
          [&options](const std::string& name) {
            const std::map<std::string, Teacher> teachers = {{"clicks", Teacher::kClicks},
                                                             {"sequence", Teacher::kSequence},
                                                             {"experts", Teacher::kExperts}};
            const auto found = teachers.find(name);
            if (found == teachers.end()) {
              throw po::error(absl::StrCat("--teacher: '", name,
                                           "' is unknown; use clicks, sequence or experts"));
            }
            options.teacher = found->second;
          }),
      "write data of this teacher; clicks has Criteo's layout, the others are CSV with a header")(
      "distinct-ids", count("distinct-ids", generator.distinct_ids, 0, kAny)->default_value(0),
      "set the number of distinct ids over all features; 0: use --cardinality-scale")(
      "cardinality-scale", real(generator.cardinality_scale, "1"),
      "scale the 33.8 million distinct ids of Criteo's data; at least 3 a feature")(
      "zipf-exponent", real(generator.zipf_exponent, "1.05"),
      "set the exponent of each feature's id distribution")(
      "missing", real(generator.missing, "0.03"), "set the probability of an empty cell")(
      "id-digits", po::value(&generator.id_digits)->value_name("8|16")->default_value(16),
      "write ids with 8 or 16 hexadecimal digits")(
      "labels", count("labels", generator.labels, 1, kMaxTasks)->default_value(1),
      "write N label columns at the start of each line")(
      "report-samples",
      count("report-samples", options.report_samples, 0, kAny)->default_value(1'000'000),
      "compute the AUCs of the report over the first N samples")(
      "threads",
      count("threads", options.threads, 1, 1024)
          ->default_value(std::max(1U, std::thread::hardware_concurrency())),
      "use N threads; the file does not depend on them")("json", po::bool_switch(&options.json),
                                                         "print the report as one line of JSON")(
      "help", "print this help")("version", "print the version");
  return description;
}

}  // namespace

StatusOr<std::optional<DatagenOptions>> ParseDatagenOptions(int argc, const char* const* argv,
                                                            std::ostream& out) {
  DatagenOptions options;
  SIMURGH_ASSIGN_OR_RETURN(
      const bool runs,
      ParseCommandLine(argc, argv, {"datagen", kUsage, kNotes}, Describe(options), out));
  if (!runs) return std::nullopt;
  return options;
}

}  // namespace simurgh
