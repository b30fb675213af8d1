#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "services/runtime/command_line.h"
#include "services/runtime/listener.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"
#include "simurgh/base/hash.h"
#include "simurgh/config/cluster_config.h"
#include "simurgh/data/csv_guess.h"
#include "simurgh/data/file_writer.h"
#include "simurgh/data/row_split.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;

constexpr char kNotes[] =
    "DATA is a CSV file with a header, plain or compressed by gzip or zstd. Cells are separated\n"
    "by ',', ';', '|' or tabs. The label has two values, such as 0 and 1, or yes and no, or it is\n"
    "a number of many values.\n\n"
    "The rows are copied to DATA.train.csv, DATA.valid.csv and, without --test, DATA.test.csv; to\n"
    ".csv.zst if DATA is compressed. Rows for training are shuffled. Training ends when "
    "predictions of DATA.valid.csv get no\n"
    "better. With --refit, which the next command has, a second training reads those rows, too. "
    "The\n"
    "choice of rows is the same in each run. Rows that cannot be read, at most 1 %,\n"
    "are left out.\n\n"
    "Prints a line for each column, with its kind and the reason, and the next command. Of a\n"
    "column of numbers the reason has the loss of predictions by this column alone: by the mean\n"
    "label of each value, by ranges, and by a linear function of the number.\n\n"
    "COLUMNS are names in the header, between commas or in several options.\n\n"
    "Examples:\n"
    "  simurgh init clicks.csv\n"
    "  simurgh init january.csv.gz --test february.csv.gz --label bought\n"
    "  simurgh init visits.csv --id shop,city --skip note --time day\n\n"
    "Exit codes: 0 done, 2 bad arguments or data, 3 failed otherwise.\n";

struct Options {
  std::string data;
  std::string test;
  std::string output;  // Of the configuration.
  GuessOptions guess;
  bool force = false;
};

// 1 to 63 of a-z, 0-9 and '-'.
std::string ClusterName(const std::string& stem) {
  constexpr size_t kMaxLength = 63;
  std::string name;
  for (const char c : stem.substr(0, kMaxLength)) {
    const auto byte = static_cast<unsigned char>(c);
    name.push_back(absl::ascii_isalnum(byte) ? absl::ascii_tolower(byte) : '-');
  }
  return name;
}

bool IsFree(uint16_t port) { return TryBind(Resolve("127.0.0.1", port)) == 0; }

// Consecutive free ports below those that the kernel gives to clients. They depend on the name, so
// that configurations seldom share them.
std::array<uint16_t, 6> FreePorts(const std::string& name) {
  constexpr uint64_t kFirst = 20'000;
  constexpr uint64_t kBlocks = 1'200;
  constexpr uint64_t kBlock = 10;
  std::array<uint16_t, 6> ports{};
  const uint64_t start = HashBytes(name);
  for (uint64_t i = 0; i < kBlocks; ++i) {
    const uint64_t first = kFirst + (start + i) % kBlocks * kBlock;
    for (size_t p = 0; p < ports.size(); ++p) ports[p] = static_cast<uint16_t>(first + p);
    if (std::ranges::all_of(ports, IsFree)) break;
  }
  return ports;
}

// A path for a configuration in `folder`: relative if the file is in it.
std::string PathFrom(const fs::path& folder, const fs::path& file) {
  const fs::path relative = file.lexically_relative(folder);
  return relative.empty() || *relative.begin() == ".." ? file : relative;
}

const char* KindName(ColumnConfig::Kind kind) {
  switch (kind) {
    case ColumnConfig::Kind::kLabel:
      return "label";
    case ColumnConfig::Kind::kDense:
      return "dense";
    case ColumnConfig::Kind::kId:
      return "id";
    case ColumnConfig::Kind::kWeight:
      return "weight";
    case ColumnConfig::Kind::kSkip:
    case ColumnConfig::Kind::kGroup:  // Never guessed.
      break;
  }
  return "skip";
}

void Print(const CsvGuess& guess) {
  size_t width = 0;
  for (const ColumnGuess& column : guess.columns)
    width = std::max(width, column.config.name.size());
  for (const ColumnGuess& column : guess.columns) {
    std::cout << absl::StreamFormat("  %-*s  %-5s  %s\n", static_cast<int>(width),
                                    column.config.name, KindName(column.config.kind),
                                    column.reason);
  }
}

Status CheckAbsent(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": exists; use --force to replace it, or another --output"));
  }
  return absl::OkStatus();
}

void PrintCounts(const std::string& path, const ColumnConfig& label, const RowCounts& counts) {
  std::cout << path << ": " << counts.rows << " rows";
  if (label.label_values == ColumnConfig::LabelValues::kBinary) {
    std::cout << ", " << counts.positives << " of them with label 1";
  }
  if (counts.bad_rows > 0)
    std::cout << "; " << counts.bad_rows << " bad rows, first: " << counts.first_bad;
  std::cout << "\n";
}

// Copies the rows. True in `has_bad_rows` if the test file has some, which training must skip.
StatusOr<SplitCounts> Split(const CsvGuess& guess, const Options& options, SplitFiles& files,
                            bool& has_bad_rows) {
  SIMURGH_ASSIGN_OR_RETURN(SplitCounts counts, SplitData(guess, options.data, files));
  PrintCounts(options.data, guess.label().config, counts.all);
  const bool is_by_time = guess.time_column.has_value();
  std::cout << "  copied " << counts.train << (is_by_time ? " of the oldest" : "")
            << " rows, shuffled, to " << files.train;
  if (!files.validation.empty()) {
    std::cout << ", " << counts.validation << ", 1 of " << counts.every << ", to "
              << files.validation;
  }
  if (!files.test.empty()) {
    std::cout << ", and " << (is_by_time ? "the newest " : "") << counts.test << " to "
              << files.test;
  }
  std::cout << "\n";
  if (options.test.empty()) return counts;
  const auto ignore = [](std::string_view /*line*/, bool /*label*/) { return absl::OkStatus(); };
  SIMURGH_ASSIGN_OR_RETURN(const RowCounts test, ReadGuessed(guess, options.test, ignore));
  PrintCounts(options.test, guess.label().config, test);
  has_bad_rows = test.bad_rows > 0;
  return counts;
}

Status Write(const std::string& path, const std::string& text) {
  SIMURGH_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  SIMURGH_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

StatusOr<ExitCode> Init(const Options& options) {
  const fs::path data = options.data;
  SplitFiles files = PartsOf(options.data, data.parent_path());
  if (!options.test.empty()) files.test.clear();
  std::vector<std::string> written = {options.output, files.train, files.validation};
  if (options.test.empty()) written.push_back(files.test);
  if (!options.force) SIMURGH_RETURN_IF_ERROR(CheckAbsent(written));

  SIMURGH_ASSIGN_OR_RETURN(const CsvGuess guess, GuessCsv(options.data, options.guess));
  std::cout << "columns of the first " << guess.rows << " rows, separated by "
            << (guess.separator == '\t' ? "tabs"
                                        : absl::StrCat("'", std::string(1, guess.separator), "'"))
            << ":\n";
  Print(guess);
  bool has_bad_rows = false;
  SIMURGH_ASSIGN_OR_RETURN(const SplitCounts counts, Split(guess, options, files, has_bad_rows));
  const bool has_validation = !files.validation.empty();

  const fs::path output = fs::absolute(options.output);
  const fs::path folder = output.parent_path();
  const auto from_output = [&](const std::string& file) {
    return PathFrom(folder.lexically_normal(), fs::absolute(file).lexically_normal());
  };
  const std::string text =
      StarterConfig(guess, {.cluster = ClusterName(StemOf(options.data)),
                            .source = data.filename(),
                            .train = from_output(files.train),
                            .validation = has_validation ? from_output(files.validation) : "",
                            .test = from_output(options.test.empty() ? files.test : options.test),
                            .model = output.stem().string() + "-model",
                            .train_rows = counts.train,
                            .has_bad_rows = has_bad_rows,
                            .ports = FreePorts(output)});
  const StatusOr<ClusterConfig> config = ParseClusterConfig(text, options.output, {});
  if (!config.ok()) return config.status();
  SIMURGH_RETURN_IF_ERROR(Write(options.output, text));
  std::error_code ignored;
  const std::string& model = config->checkpoint.directory;
  for (const std::string& folder_of_model : {model, TrialOf(model)}) {
    if (!fs::exists(folder_of_model, ignored)) continue;
    std::cout << folder_of_model
              << " is there, and training continues it; remove it to train anew\n";
  }
  std::cout << "wrote " << options.output << "; next:\n  simurgh train "
            << ShellWord(options.output) << (has_validation ? " --refit" : "") << "\n";
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunInitCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  Options own;
  po::options_description options("Options");
  GuessOptions& guess = own.guess;
  const auto column = [](std::string* name) { return po::value(name)->value_name("COLUMN"); };
  const auto columns = [](std::vector<std::string>* names) {
    return po::value(names)->value_name("COLUMNS");
  };
  const auto rows = [&] { return po::value(&guess.max_rows)->value_name("N"); };
  options.add_options()("output", po::value(&own.output)->value_name("FILE"),
                        "write the configuration to FILE (default: DATA with the ending .yaml)")(
      "label", column(&guess.label),
      "use this column as the label (default: by its name, or the only one with two values)")(
      "id", columns(&guess.ids), "use these columns as ids")(
      "dense", columns(&guess.dense), "use these columns as numbers")("skip", columns(&guess.skip),
                                                                      "leave these columns out")(
      "weight", column(&guess.weight), "use this column as the weight of the rows")(
      "group", column(&guess.group), "also compute the AUC within the rows of each of its ids")(
      "time", column(&guess.time),
      "split by this column's dates or numbers: train on the oldest rows, test on the newest")(
      "test", po::value(&own.test)->value_name("FILE"), "test on FILE, and on no row of DATA")(
      "sample", rows(), "look at the first N rows (default: 200000)")(
      "force", po::bool_switch(&own.force), "replace existing files")("rows", rows(),
                                                                      "older name of --sample");
  const CommandHelp help{"init: writes a configuration that trains on a CSV file", kInitUsage,
                         kNotes};
  const auto run = [&](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
    if (words.empty()) return OptionProblem("init: DATA is missing");
    if (guess.max_rows == 0) return OptionProblem("--sample 0 is out of range; use 1 or more");
    own.data = words[0];
    guess.label_command = [&](const std::string& name) {
      return absl::StrCat("simurgh init ", ShellWord(own.data), " --label ", ShellWord(name));
    };
    if (own.output.empty()) {
      own.output = fs::path(own.data).parent_path() / (StemOf(own.data) + ".yaml");
    }
    return Init(own);
  };
  return RunCommand(argc, argv, help, options, 1, run);
}

}  // namespace simurgh
