#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <iosfwd>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include <boost/program_options/errors.hpp>
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>

#include "base/hash.h"
#include "base/random.h"
#include "base/status.h"
#include "bench/datagen/generator.h"
#include "data/reading/file_writer.h"
#include "nn/metrics.h"
#include "services/runtime/command_line.h"
#include "services/runtime/machine_limits.h"

namespace simurgh {
namespace {

// What writes the samples.
enum class Teacher {
  kClicks,    // bench/datagen/generator.h
  kSequence,  // An item and the items seen before, whose labels need target attention.
  kExperts,   // Two labels that need a mixture of experts.
  kPurchases  // Clicks, and the purchases that follow some of them.
};

// Lines of a file. Sample n is a function of the seed and n.
//
// Threads: any.
struct SampleWriter {
  std::string header;  // The file's first line, with its end; empty: none.
  uint64_t distinct_ids = 0;
  // Appends sample `number` as a line. additive_logit and dense_logit are NaN: these teachers have
  // no such parts.
  std::function<GeneratedSample(uint64_t number, std::string& text)> append;
};

GeneratedSample Draw(const std::vector<double>& logits, Random& random) {
  GeneratedSample sample;
  sample.teacher_logits = logits;
  sample.additive_logit = NAN;
  sample.dense_logit = NAN;
  for (const double logit : logits) {
    sample.labels.push_back(random.Uniform() < 1.0 / (1.0 + std::exp(-logit)) ? 1.0F : 0.0F);
  }
  return sample;
}

Random RandomOf(uint64_t seed, uint64_t number) { return Random(Mix64(Mix64(seed) + number)); }

// `item,seen,label`. Items come in 50 series of two parts; `seen` has 5 to 20 items. The log-odds
// are 2.5 for each seen first part of the item's series, less 2.5 for each second part. So the sum
// of the seen items tells nothing without the item, and most of them are of other series.
SampleWriter SequenceTeacher(uint64_t seed) {
  constexpr uint64_t kSeries = 50;
  constexpr uint64_t kItems = 2 * kSeries;
  constexpr uint64_t kShortest = 5;
  constexpr uint64_t kLongest = 20;
  constexpr double kExpected = 1.5;  // Seen items of the item's series, besides those by chance.
  constexpr double kWeight = 2.5;
  return {"item,seen,label\n", kItems, [seed](uint64_t number, std::string& text) {
            Random random = RandomOf(seed, number);
            const uint64_t item = random.Below(kItems);
            const uint64_t length = kShortest + random.Below(kLongest - kShortest + 1);
            double logit = 0;
            absl::StrAppend(&text, item, ",");
            for (uint64_t i = 0; i < length; ++i) {
              const bool of_series = random.Uniform() < kExpected / static_cast<double>(length);
              const uint64_t other = random.Below(kItems);
              const uint64_t seen = of_series ? item / 2 * 2 + other % 2 : other;
              if (seen / 2 == item / 2) logit += seen % 2 == 0 ? kWeight : -kWeight;
              absl::StrAppend(&text, i == 0 ? "" : " ", seen);
            }
            const GeneratedSample sample = Draw({logit}, random);
            absl::StrAppend(&text, ",", sample.labels[0], "\n");
            return sample;
          }};
}

// `segment,x1,...,x8,y1,y2`. Each of 8 experts is a product of two linear functions of the numbers.
// Each of 256 segments has an expert for each label, whose value is the label's log-odds.
SampleWriter ExpertsTeacher(uint64_t seed) {
  constexpr size_t kSegments = 256;
  constexpr size_t kExperts = 8;
  constexpr size_t kNumbers = 8;
  constexpr double kScale = 4;
  using Direction = std::array<double, kNumbers>;  // Of norm 1.
  std::vector<std::array<Direction, 2>> experts(kExperts);
  Random random_teacher(Mix64(seed));
  for (auto& expert : experts) {
    for (Direction& direction : expert) {
      for (double& weight : direction) weight = random_teacher.Normal();
      const double norm =
          std::sqrt(std::inner_product(direction.begin(), direction.end(), direction.begin(), 0.0));
      for (double& weight : direction) weight /= norm;
    }
  }
  std::vector<std::array<size_t, 2>> experts_of(kSegments);  // Of each label.
  for (auto& chosen : experts_of) {
    for (size_t& expert : chosen) expert = random_teacher.Below(kExperts);
  }
  std::string header = "segment";
  for (size_t i = 1; i <= kNumbers; ++i) absl::StrAppend(&header, ",x", i);
  const auto append = [=](uint64_t number, std::string& text) {
    Random random = RandomOf(seed, number);
    const uint64_t segment = random.Below(kSegments);
    Direction x;
    absl::StrAppend(&text, segment);
    for (double& value : x) {
      value = std::round(random.Normal() * 1000) / 1000;
      absl::StrAppend(&text, ",", value);
    }
    std::vector<double> logits;
    for (const size_t expert : experts_of[segment]) {
      double logit = kScale;
      for (const Direction& direction : experts[expert]) {
        logit *= std::inner_product(x.begin(), x.end(), direction.begin(), 0.0);
      }
      logits.push_back(logit);
    }
    const GeneratedSample sample = Draw(logits, random);
    absl::StrAppend(&text, ",", sample.labels[0], ",", sample.labels[1], "\n");
    return sample;
  };
  return {header + ",y1,y2\n", kSegments, append};
}

// `user,item,click,bought`. Users and items have a vector of four numbers for each of two actions.
// The log-odds of a click, and those of a purchase after one, are a product of such vectors less 1.
SampleWriter PurchasesTeacher(uint64_t seed) {
  constexpr uint64_t kEach = 50;  // Number of users, and of items.
  constexpr size_t kNumbers = 4;
  constexpr size_t kActions = 2;
  using Vectors = std::array<std::array<double, kNumbers>, kActions>;
  std::vector<Vectors> vectors(2 * kEach);
  Random random_teacher(Mix64(seed));
  for (Vectors& of_id : vectors) {
    for (auto& vector : of_id) {
      for (double& value : vector) value = random_teacher.Normal();
    }
  }
  const auto append = [=](uint64_t number, std::string& text) {
    Random random = RandomOf(seed, number);
    const uint64_t user = random.Below(kEach);
    const uint64_t item = random.Below(kEach);
    std::array<double, kActions> logits;
    for (size_t action = 0; action < kActions; ++action) {
      const auto& own = vectors[user][action];
      const auto& other = vectors[kEach + item][action];
      logits[action] = std::inner_product(own.begin(), own.end(), other.begin(), -1.0);
    }
    GeneratedSample sample = Draw({logits[0], logits[1]}, random);
    sample.labels[1] *= sample.labels[0];
    const double both = 1 / ((1 + std::exp(-logits[0])) * (1 + std::exp(-logits[1])));
    sample.teacher_logits[1] = std::log(both / (1 - both));
    absl::StrAppend(&text, user, ",", item, ",", sample.labels[0], ",", sample.labels[1], "\n");
    return sample;
  };
  return {"user,item,click,bought\n", 2 * kEach, append};
}

struct DatagenOptions {
  GeneratorConfig generator;
  Teacher teacher = Teacher::kClicks;
  std::string output;
  uint64_t samples = 0;
  uint64_t first = 0;           // Number of the first sample.
  uint64_t report_samples = 0;  // The report covers this many of the first samples written.
  uint32_t threads = 1;
  bool json = false;
};

// Labels of generated samples, with the scores of the teacher and of its parts.
struct Verdicts {
  std::vector<std::vector<float>> labels;   // Per label, by sample.
  std::vector<std::vector<float>> teacher;  // Likewise.
  std::vector<float> additive;
  std::vector<float> dense;

  void Add(const GeneratedSample& sample);
  void Append(const Verdicts& other);
};

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
    "The teachers `sequence` (columns item, seen, label), `experts` (segment, x1 to x8, y1, y2)\n"
    "and `purchases` (user, item, click, bought) have the labels of config/sequence.yaml,\n"
    "config/experts.yaml and config/esmm.yaml. Of the options for ids, labels and cells they use\n"
    "none.\n\n"
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
                                                             {"experts", Teacher::kExperts},
                                                             {"purchases", Teacher::kPurchases}};
            const auto found = teachers.find(name);
            if (found == teachers.end()) {
              throw po::error(
                  absl::StrCat("--teacher: '", name,
                               "' is unknown; use clicks, sequence, experts or purchases"));
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

// The options of a command line; nothing after --help and --version, which write to `out`.
// Errors: INVALID_ARGUMENT naming the option.
StatusOr<std::optional<DatagenOptions>> ParseDatagenOptions(int argc, const char* const* argv,
                                                            std::ostream& out) {
  DatagenOptions options;
  SIMURGH_ASSIGN_OR_RETURN(
      const bool runs,
      ParseCommandLine(argc, argv, {"datagen", kUsage, kNotes}, Describe(options), out));
  if (!runs) return std::nullopt;
  return options;
}

void Extend(std::vector<float>& values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

void Verdicts::Add(const GeneratedSample& sample) {
  labels.resize(sample.labels.size());
  teacher.resize(sample.labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i].push_back(sample.labels[i]);
    teacher[i].push_back(static_cast<float>(sample.teacher_logits[i]));
  }
  additive.push_back(static_cast<float>(sample.additive_logit));
  dense.push_back(static_cast<float>(sample.dense_logit));
}

void Verdicts::Append(const Verdicts& other) {
  labels.resize(std::max(labels.size(), other.labels.size()));
  teacher.resize(labels.size());
  for (size_t i = 0; i < other.labels.size(); ++i) {
    Extend(labels[i], other.labels[i]);
    Extend(teacher[i], other.teacher[i]);
  }
  Extend(additive, other.additive);
  Extend(dense, other.dense);
}

// Counts and AUCs, as lines of a name and a number or as one line of JSON. An undefined number,
// such as the AUC of one class, is "nan" or, in JSON, null.
std::string Report(const Verdicts& verdicts, uint64_t samples, uint64_t positives,
                   uint64_t distinct_ids, bool json) {
  const auto auc = [&](const std::vector<float>& scores, size_t label) {
    const double value = verdicts.labels.empty() ? NAN : ExactAuc(verdicts.labels[label], scores);
    if (std::isnan(value)) return std::string(json ? "null" : "nan");
    return absl::StrFormat("%.6f", value);
  };
  std::vector<std::pair<std::string, std::string>> entries = {
      {"samples", absl::StrCat(samples)},
      {"distinct_ids", absl::StrCat(distinct_ids)},
      {"positive_rate",
       absl::StrFormat("%.6f", static_cast<double>(positives) / static_cast<double>(samples))},
      {"auc_samples", absl::StrCat(verdicts.dense.size())},
      {"teacher_auc", auc(verdicts.teacher.empty() ? verdicts.dense : verdicts.teacher[0], 0)},
      {"teacher_auc_without_interactions", auc(verdicts.additive, 0)},
      {"teacher_auc_dense_only", auc(verdicts.dense, 0)},
  };
  for (size_t i = 1; i < verdicts.labels.size(); ++i) {
    entries.emplace_back(absl::StrCat("teacher_auc_label", i + 1), auc(verdicts.teacher[i], i));
  }
  const auto join = [&](const char* separator, const char* quote, const char* colon) {
    return absl::StrJoin(entries, separator, [&](std::string* out, const auto& entry) {
      absl::StrAppend(out, quote, entry.first, quote, colon, entry.second);
    });
  };
  return json ? absl::StrCat("{", join(", ", "\"", ": "), "}\n")
              : absl::StrCat(join("\n", "", " "), "\n");
}

// Writes generated data; bench/datagen/generator.h and the teachers above describe them.
constexpr uint64_t kBlockSamples = 16'384;  // About 8 MB of text.

struct Block {
  uint64_t samples = 0;
  uint64_t positives = 0;
  std::string text;
  Verdicts verdicts;
};

// Samples [first, first + count), with verdicts of the first `reported`.
Block Generate(const SampleWriter& writer, uint64_t first, uint64_t count, uint64_t reported) {
  Block block;
  block.samples = count;
  for (uint64_t n = 0; n < count; ++n) {
    const GeneratedSample sample = writer.append(first + n, block.text);
    block.positives += sample.labels[0] == 1.0F ? 1 : 0;
    if (n < reported) block.verdicts.Add(sample);
  }
  return block;
}

// Several threads generate blocks ahead; the file has them in order.
Status Run(const SampleWriter& writer, const DatagenOptions& options, FileWriter file) {
  const auto start = std::chrono::steady_clock::now();
  auto shown = start;
  std::deque<std::future<Block>> ahead;
  Verdicts verdicts;
  uint64_t started = 0;
  uint64_t written = 0;
  uint64_t positives = 0;
  SIMURGH_RETURN_IF_ERROR(file.Append(writer.header));
  while (written < options.samples) {
    while (ahead.size() < options.threads && started < options.samples) {
      const uint64_t count = std::min(kBlockSamples, options.samples - started);
      const uint64_t reported = options.report_samples - std::min(options.report_samples, started);
      ahead.push_back(std::async(std::launch::async, Generate, std::cref(writer),
                                 options.first + started, count, reported));
      started += count;
    }
    const Block block = ahead.front().get();
    ahead.pop_front();
    SIMURGH_RETURN_IF_ERROR(file.Append(block.text));
    verdicts.Append(block.verdicts);
    written += block.samples;
    positives += block.positives;
    const auto now = std::chrono::steady_clock::now();
    if (written < options.samples && now - shown < std::chrono::seconds(1)) continue;
    shown = now;
    const double seconds = std::chrono::duration<double>(now - start).count();
    std::cerr << "datagen: " << written << " of " << options.samples << " samples, "
              << static_cast<uint64_t>(static_cast<double>(written) / seconds) << " per second\n";
  }
  SIMURGH_RETURN_IF_ERROR(file.Commit());
  std::cout << Report(verdicts, written, positives, writer.distinct_ids, options.json);
  return absl::OkStatus();
}

StatusOr<SampleWriter> WriterOf(const DatagenOptions& options) {
  switch (options.teacher) {
    case Teacher::kSequence:
      return SequenceTeacher(options.generator.seed);
    case Teacher::kExperts:
      return ExpertsTeacher(options.generator.seed);
    case Teacher::kPurchases:
      return PurchasesTeacher(options.generator.seed);
    case Teacher::kClicks:
      break;
  }
  SIMURGH_ASSIGN_OR_RETURN(const Generator generator, Generator::Create(options.generator));
  const auto& cardinalities = generator.cardinalities();
  return SampleWriter{
      .distinct_ids = std::accumulate(cardinalities.begin(), cardinalities.end(), uint64_t{0}),
      .append = [generator](uint64_t number, std::string& text) {
        GeneratedSample sample = generator.Sample(number);
        generator.AppendLine(sample, text);
        return sample;
      }};
}

int Fail(const Status& status, ExitCode code) {
  std::cerr << "datagen: " << status.message() << "\n";
  return static_cast<int>(code);
}

int End(const Status& done) {
  return done.ok() ? static_cast<int>(ExitCode::kOk) : Fail(done, ExitCode::kRuntimeFailure);
}

int Main(int argc, const char* const* argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // A write beyond the limit of file sizes returns the error.
  const auto parsed = ParseDatagenOptions(argc, argv, std::cout);
  if (!parsed.ok()) return Fail(parsed.status(), ExitCode::kBadConfiguration);
  const std::optional<DatagenOptions>& options = *parsed;
  if (!options.has_value()) return End(FlushOutput());
  const StatusOr<SampleWriter> writer = WriterOf(*options);
  if (!writer.ok()) return Fail(writer.status(), ExitCode::kBadConfiguration);
  StatusOr<FileWriter> file = FileWriter::Create(options->output);
  if (!file.ok()) return Fail(Annotate(file.status(), "--output"), ExitCode::kBadConfiguration);
  Status done = Run(*writer, *options, *std::move(file));
  done.Update(FlushOutput());
  return End(done);
}

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  try {
    return simurgh::Main(argc, argv);
  } catch (const std::exception& error) {  // Out of memory or threads.
    return static_cast<int>(simurgh::ReportException("datagen", error));
  }
}
