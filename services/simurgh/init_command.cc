#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "base/hash.h"
#include "config/cluster_config.h"
#include "config/uri.h"
#include "data/guess/data_guess.h"
#include "data/guess/retrieval_guess.h"
#include "data/guess/row_split.h"
#include "data/reading/file_writer.h"
#include "model/file_system.h"
#include "services/runtime/command_line.h"
#include "services/runtime/listener.h"
#include "services/simurgh/commands.h"
#include "services/simurgh/output.h"

namespace simurgh {
namespace {

namespace fs = std::filesystem;

constexpr char kInitNotes[] =
    R"(DATA is a CSV file with a header, JSON lines, libsvm, libffm or Criteo's rows. Gzip and zstd
may compress these. Or DATA is a Parquet or Arrow file, or a folder of Parquet files. Cells of
CSV are separated by ',', ';', '|' or tabs. The text is UTF-8. The label has two values, such as
0 and 1, or yes and no, or it is a number of many values.

The rows are copied to the configuration's folder: for clicks.yaml to clicks.train.csv,
clicks.valid.csv and, without --test, clicks.test.csv. If DATA is compressed, or Parquet or Arrow,
these end in .csv.zst. Other formats keep their ending. Rows for training are shuffled; beyond
128 MiB this needs as much free space as the rows. Training ends when predictions of
clicks.valid.csv get no better. With --refit, which the next command has, a second training reads
those rows, too.
The choice of rows is the same in each run. Rows that cannot be read, at most 1 %, are left out.

Prints a line for each column, with its kind and the reason, and the next command. Of a
column of numbers the reason has the loss of predictions by this column alone: by the mean
label of each value, by ranges, and by a linear function of the number.

With --retrieval, DATA has a row for each interaction of a user with an item. The item's column is
the one whose values are the ids of --items. Columns of the items with repeated values become
features. So do columns that are the same in all rows of a user. Numbers become ranges. The last
positive row of a user is for the test, and the one before for validation. Without a time these are
random ones. Training ends when ndcg@20 of the validation gets no better.

Ratings of up to 5 are positives from 4 on, other numbers from their mean on. Zero and numbers
below are none. Of two values the greater one is the positive, or the text that means yes.
--positive names the text, or the least number. Rows without a label are left out.

If the rows have a time and no history, each gets a column `history`: the items of the user's
earlier positive rows, the last one first, 50 at most. A request to simurgh serve then has that
column, too. Without it, the user is one without a history. --no-history leaves the column out.

COLUMNS are names in the header, between commas or in several options.

Examples:
  simurgh init clicks.csv
  simurgh init january.csv.gz --test february.csv.gz --label bought
  simurgh init events.jsonl.gz --output model/events.yaml
  simurgh init records.jsonl --kafka localhost:9092/clicks
  simurgh init visits.csv --id shop,city --skip note --time day
  simurgh init --retrieval ratings.csv --items movies.csv

Exit codes: 0 done, 2 bad arguments or data, 3 failed otherwise.
)";

struct InitOptions {
  bool is_retrieval = false;  // `data` has interactions of users with items.
  std::string items;          // With is_retrieval: file of the items; may be empty.
  std::string user;
  std::string item;
  bool no_history = false;  // With is_retrieval: make no history of each user.
  std::string data;
  std::string test;
  std::string output;  // Path of the configuration.
  std::string kafka;   // BROKERS/TOPICS; empty: train on DATA.
  GuessOptions guess;
  bool force = false;
};

// Returns a name of 1 to 63 characters a-z, 0-9 and '-'.
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

// Returns consecutive free ports below those that the kernel gives to clients. They depend on the
// name, so that configurations seldom share them.
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

// Returns a path for a configuration in `folder`: relative if the file is in it.
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
    case ColumnConfig::Kind::kGroup:  // No column is guessed to be a group.
      break;
  }
  return "skip";
}

// Returns the name of a column. A name beyond ASCII: as the header has it, with the
// configuration's.
std::string ShownName(const ColumnConfig& column) {
  const bool is_ascii = std::ranges::all_of(column.header_name, [](char c) {
    return absl::ascii_isascii(static_cast<unsigned char>(c));
  });
  return is_ascii ? column.name : absl::StrCat(column.header_name, " (", column.name, ")");
}

// Returns the number of characters of a text in UTF-8.
size_t LengthOf(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

void Print(const DataGuess& guess) {
  size_t width = 0;
  for (const ColumnGuess& column : guess.columns)
    width = std::max(width, LengthOf(ShownName(column.config)));
  for (const ColumnGuess& column : guess.columns) {
    std::string name = ShownName(column.config);
    name.append(width - LengthOf(name), ' ');
    std::cout << absl::StreamFormat("  %s  %-5s  %s\n", name, KindName(column.config.kind),
                                    column.reason);
  }
  const auto has_loss = [](const ColumnGuess& column) {
    return absl::StrContains(column.reason, "; loss ");
  };
  if (std::ranges::any_of(guess.columns, has_loss)) {
    std::cout << absl::StreamFormat(
        "  (loss: of predictions by this column alone; a constant has %.3f)\n",
        guess.constant_loss);
  }
}

// Prints how to split by time, if there are times and the split is random.
void PrintTimes(const DataGuess& guess) {
  const auto times = std::ranges::find_if(guess.columns, [](const ColumnGuess& column) {
    return column.config.date && column.has_times;
  });
  if (guess.time_column || times == guess.columns.end()) return;
  std::cout << "  rows have times: --time " << ShellWord(HeaderName(times->config))
            << " tests on the newest rows, as in use\n";
}

// Errors: INVALID_ARGUMENT if one of the paths to write is the path of the data.
Status CheckIsNotData(const std::vector<std::string>& paths, const InitOptions& options) {
  for (const std::string& path : paths) {
    for (const std::string& data : {options.data, options.test}) {
      std::error_code ignored;
      if (data.empty() || !fs::equivalent(path, data, ignored)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": has the rows to read, and would be replaced; use another --output"));
    }
  }
  return absl::OkStatus();
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

StatusOr<SplitCounts> Split(const DataGuess& guess, const InitOptions& options, SplitFiles& files) {
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
  constexpr double kFewPercent = 0.5;
  const double percent =
      100 * static_cast<double>(counts.copies) / static_cast<double>(counts.all.rows);
  if (percent >= kFewPercent) {
    std::cout << absl::StreamFormat(
        "  %.0f %% of the rows repeat another one; equal rows are in the same file\n", percent);
  }
  if (!files.test.empty()) PrintTimes(guess);
  return counts;
}

// Reads the test file. Copies Parquet and Arrow data to `copy`. has_bad_rows: receives whether
// training must skip some rows.
Status ReadTest(const DataGuess& guess, const InitOptions& options, const std::string& copy,
                bool& has_bad_rows) {
  const auto ignore = [](std::string_view /*line*/, bool /*label*/) { return absl::OkStatus(); };
  SIMURGH_ASSIGN_OR_RETURN(const RowCounts counts, copy.empty()
                                                       ? ReadGuessed(guess, options.test, ignore)
                                                       : CopyRows(guess, options.test, copy));
  PrintCounts(options.test, guess.label().config, counts);
  if (!copy.empty()) std::cout << "  copied to " << copy << "\n";
  has_bad_rows = copy.empty() && counts.bad_rows + counts.blank_rows > 0;
  return absl::OkStatus();
}

// Returns "the first 100 rows, separated by tabs".
std::string SampleText(const DataGuess& guess) {
  const std::string rows = absl::StrCat("the first ", guess.rows, " rows");
  if (IsArrow(guess.table)) return rows + ", which are copied as CSV";
  if (!HasHeader(guess.table))
    return absl::StrCat(rows, ", format: ", FormatName(guess.table.format));
  const std::string separator =
      guess.separator == '\t' ? "tabs" : absl::StrCat("'", std::string(1, guess.separator), "'");
  return absl::StrCat(rows, ", separated by ", separator);
}

Status Write(const std::string& path, const std::string& text) {
  SIMURGH_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  SIMURGH_RETURN_IF_ERROR(file.Append(text));
  return file.Commit();
}

// Sets the path of the configuration unless it is given.
Status ChooseOutput(InitOptions& options) {
  if (IsUri(options.output)) {
    return OptionProblem(absl::StrCat(
        "--output: '", options.output,
        "' is a URI; name a file, and set checkpoint.directory in it to save to a bucket"));
  }
  if (!options.output.empty()) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(const std::string folder, FolderFor(options.data));
  options.output = fs::path(folder) / (StemOf(options.data) + ".yaml");
  if (!IsUri(options.data) && fs::path(options.data).parent_path() != folder) {
    std::cout << fs::path(options.data).parent_path().string()
              << " cannot be written; the files are written to the current folder\n";
  }
  return absl::OkStatus();
}

// Detects a configuration that is refused, before the rows are copied. Lowers the number of
// features until their settings are within the limits.
Status FitConfig(const DataGuess& guess, const InitOptions& options, StarterOptions& of_all) {
  if (!fs::is_regular_file(options.data)) return absl::OkStatus();
  StarterOptions about = of_all;
  about.train = about.test = fs::absolute(options.data);  // The check needs files that exist.
  about.validation = about.train;
  constexpr uint64_t kLeast = kMaxFeatures / 16;
  Status parsed;
  for (; about.max_features >= kLeast; about.max_features /= 2) {
    parsed = ParseClusterConfig(StarterConfig(guess, about), options.output, {}).status();
    of_all.max_features = about.max_features;
    if (parsed.ok()) return parsed;
  }
  return Annotate(parsed, "the configuration for these columns is refused; --skip leaves some out");
}

// Returns the names between commas.
std::vector<std::string> NamesIn(std::string_view text) {
  return absl::StrSplit(absl::string_view(text.data(), text.size()), ',', absl::SkipEmpty());
}

// Writes a configuration that trains on topics of Kafka, whose records are like the rows.
StatusOr<ExitCode> WriteForStream(const DataGuess& guess, const InitOptions& options) {
  constexpr uint64_t kRows = 5'000'000;  // The unknown number of a stream's rows is taken as large.
  if (guess.table.format != DataConfig::Format::kJson) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.data, ": --kafka needs rows as records have them, JSON lines"));
  }
  if (!options.force) SIMURGH_RETURN_IF_ERROR(CheckAbsent({options.output}));
  const fs::path output = fs::absolute(options.output);
  const size_t slash = options.kafka.find('/');
  const std::string text =
      StarterConfig(guess, {.cluster = ClusterName(StemOf(options.data)),
                            .source = fs::path(WithoutOptions(options.data)).filename(),
                            .brokers = NamesIn(options.kafka.substr(0, slash)),
                            .topics = NamesIn(options.kafka.substr(slash + 1)),
                            .model = output.stem().string() + "-model",
                            .train_rows = kRows,
                            .ports = FreePorts(output)});
  SIMURGH_RETURN_IF_ERROR(ParseClusterConfig(text, options.output, {}).status());
  SIMURGH_RETURN_IF_ERROR(Write(options.output, text));
  std::cout << "wrote " << options.output << "; next:\n  " << OwnCommand() << " train "
            << ShellWord(options.output) << "\n";
  return ExitCode::kOk;
}

// Prints what each column of interactions and items is used as.
void PrintRoles(const RetrievalGuess& guess, const InitOptions& options) {
  const auto print = [](const std::vector<ColumnNote>& notes) {
    for (const ColumnNote& note : notes) {
      std::cout << "  " << note.name << ": " << note.reason;
      if (!note.written.empty() && note.written != note.name) {
        std::cout << "; the written files name it " << note.written;
      }
      std::cout << "\n";
    }
  };
  std::cout << "columns of " << options.data << ":\n";
  print(guess.notes);
  if (guess.makes_history) {
    std::cout << "  " << guess.history->name << ": " << guess.history->reason << "\n";
  }
  if (!guess.label) std::cout << "  no label: each row is a positive\n";
  if (!guess.time) std::cout << "  no time: the rows for the test are random ones\n";
  if (guess.has_items) std::cout << "columns of " << options.items << ":\n";
  print(guess.item_notes);
  for (const std::string& warning : guess.warnings) std::cout << "warning: " << warning << "\n";
}

// Prints what the written files have, and what they lack.
void PrintRetrievalCounts(const RetrievalCounts& counts, const InitOptions& options,
                          const RetrievalFiles& files) {
  constexpr uint64_t kMuch = 10;  // One of this many rows or items is worth a remark.
  std::cout << options.data << ": " << counts.rows << " rows, " << counts.positives
            << " of them positives, of " << counts.users << " users\n";
  const auto left_out = [](uint64_t rows, const std::string& why) {
    if (rows > 0) std::cout << "  left out " << rows << " rows " << why << "\n";
  };
  left_out(counts.bad_rows, "that cannot be read");
  left_out(counts.without_user, "without a user");
  left_out(counts.without_item, "without an item");
  left_out(counts.without_label, "without a label");
  left_out(counts.unknown_items, absl::StrCat("of items that ", options.items, " lacks"));
  if (kMuch * counts.unknown_items > counts.rows) {
    std::cout << "WARNING: " << 100 * counts.unknown_items / counts.rows
              << " % OF THE ROWS ARE LOST; add their items to " << options.items << "\n";
  }
  if (counts.without_time > 0) {
    std::cout << "  " << counts.without_time
              << " positive rows without a time count as the oldest of their user\n";
  }
  if (counts.users == 1) {
    std::cout << "warning: all rows have the same user, so there is no taste to learn; name the "
                 "column of users by --user\n";
  }
  if (counts.items == counts.items_without_rows + 1) {
    std::cout << "warning: all positives have the same item, so there is nothing to choose; name "
                 "the column of items by --item\n";
  }
  std::cout << "  wrote " << counts.train << " rows to " << files.train << ", " << counts.validation
            << " to " << files.validation << ", " << counts.test << " to " << files.test
            << "\n  wrote " << counts.items << " items to " << files.items;
  if (!options.items.empty()) {
    std::cout << ", which training reads; change items there, not in " << options.items;
  }
  std::cout << "\n";
  if (kMuch * counts.items_without_rows > counts.items) {
    std::cout << "  " << 100 * counts.items_without_rows / counts.items
              << " % of the items have no positive row, so their scores are arbitrary; "
                 "model.two_tower.uniform_negatives: 256 ranks them lower\n";
  }
}

// Writes the files of a model of two towers.
StatusOr<ExitCode> InitRetrieval(InitOptions options) {
  if (!options.test.empty() || !options.kafka.empty() || !options.guess.group.empty()) {
    return OptionProblem(
        "--retrieval supports --items, --user, --item, --label, --positive, --weight, --time, "
        "--id, "
        "--dense, --skip, --no-history, --sample, --output and --force");
  }
  SIMURGH_RETURN_IF_ERROR(ChooseOutput(options));
  const RetrievalOptions about{.interactions = options.data,
                               .items = options.items,
                               .sample_rows = options.guess.max_rows,
                               .user = options.user,
                               .item = options.item,
                               .label = options.guess.label,
                               .positive = options.guess.positive,
                               .weight = options.guess.weight,
                               .time = options.guess.time,
                               .ids = options.guess.ids,
                               .dense = options.guess.dense,
                               .skip = options.guess.skip,
                               .makes_history = !options.no_history};
  SIMURGH_ASSIGN_OR_RETURN(const RetrievalGuess guess, GuessRetrieval(about));
  const fs::path output = fs::absolute(options.output);
  const std::string prefix = fs::path(options.output).replace_extension();
  const RetrievalFiles files{.train = prefix + ".train.csv",
                             .validation = prefix + ".valid.csv",
                             .test = prefix + ".test.csv",
                             .items = prefix + ".items.csv"};
  const std::vector<std::string> written = {options.output, files.train, files.validation,
                                            files.test, files.items};
  for (const std::string& path : written) {
    std::error_code ignored;
    for (const std::string& read : {options.data, options.items}) {
      if (read.empty() || !fs::equivalent(path, read, ignored)) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": has the rows to read, and would be replaced; use another --output"));
    }
  }
  if (!options.force) SIMURGH_RETURN_IF_ERROR(CheckAbsent(written));
  std::error_code failed;
  fs::create_directories(output.parent_path(), failed);
  if (failed) {
    return absl::InvalidArgumentError(absl::StrCat("--output ", options.output, ": cannot create ",
                                                   output.parent_path().string(), ": ",
                                                   failed.message()));
  }
  PrintRoles(guess, options);
  SIMURGH_ASSIGN_OR_RETURN(const RetrievalCounts counts, SplitRetrieval(guess, about, files));
  PrintRetrievalCounts(counts, options, files);
  const fs::path folder = output.parent_path().lexically_normal();
  const auto from_output = [&](const std::string& file) {
    return PathFrom(folder, fs::absolute(file).lexically_normal());
  };
  const RetrievalFiles named{.train = from_output(files.train),
                             .validation = from_output(files.validation),
                             .test = from_output(files.test),
                             .items = from_output(files.items)};
  const std::string text = RetrievalConfig(
      guess, counts, named, ClusterName(output.stem().string()),
      fs::path(WithoutOptions(options.data)).filename(), output.stem().string() + "-model");
  SIMURGH_RETURN_IF_ERROR(ParseClusterConfig(text, options.output, {}).status());
  SIMURGH_RETURN_IF_ERROR(Write(options.output, text));
  std::cout << "wrote " << options.output << "; next:\n  " << OwnCommand() << " train "
            << ShellWord(options.output) << "\n";
  return ExitCode::kOk;
}

StatusOr<ExitCode> Init(InitOptions options) {
  if (options.is_retrieval) return InitRetrieval(std::move(options));
  if (!options.items.empty() || !options.user.empty() || !options.item.empty() ||
      options.no_history) {
    return OptionProblem("--items, --user, --item and --no-history need --retrieval");
  }
  SIMURGH_RETURN_IF_ERROR(ChooseOutput(options));
  SIMURGH_ASSIGN_OR_RETURN(const DataGuess guess, GuessData(options.data, options.guess));
  const std::string prefix = fs::path(options.output).replace_extension();
  SplitFiles files = PartsOf(guess, options.data, prefix);
  std::string copy_of_test;
  if (!options.test.empty()) copy_of_test = std::exchange(files.test, "");
  if (!IsArrow(guess.table)) copy_of_test.clear();
  std::vector<std::string> written = {options.output, files.train, files.validation};
  for (const std::string& test : {files.test, copy_of_test}) {
    if (!test.empty()) written.push_back(test);
  }
  std::cout << "columns of " << SampleText(guess) << ":\n";
  Print(guess);
  if (!guess.spread_column.empty()) {
    std::cout
        << "warning: rows repeat but for column " << ShellWord(guess.spread_column)
        << ". Join its values into one list a row, such as a|b; else test rows repeat rows of "
           "training\n";
  }
  if (!options.kafka.empty()) return WriteForStream(guess, options);
  SIMURGH_RETURN_IF_ERROR(CheckIsNotData(written, options));
  if (!options.force) SIMURGH_RETURN_IF_ERROR(CheckAbsent(written));
  const fs::path output = fs::absolute(options.output);
  const fs::path folder = output.parent_path();
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) {
    return absl::InvalidArgumentError(absl::StrCat("--output ", options.output, ": cannot create ",
                                                   folder.string(), ": ", failed.message()));
  }
  const auto from_output = [&](const std::string& file) -> std::string {
    if (IsUri(file)) return file;
    return PathFrom(folder.lexically_normal(), fs::absolute(file).lexically_normal());
  };
  StarterOptions about{
      .cluster = ClusterName(StemOf(options.data)),
      .source = fs::path(WithoutOptions(options.data)).filename(),
      .train = from_output(files.train),
      .validation = from_output(files.validation),
      .test = from_output(!files.test.empty()     ? files.test
                          : !copy_of_test.empty() ? copy_of_test
                                                  : options.test),
      .model = output.stem().string() + "-model",
      .train_rows = guess.rows,
      .ports = FreePorts(output),
  };
  SIMURGH_RETURN_IF_ERROR(FitConfig(guess, options, about));
  SIMURGH_ASSIGN_OR_RETURN(const SplitCounts counts, Split(guess, options, files));
  if (!options.test.empty()) {
    SIMURGH_RETURN_IF_ERROR(ReadTest(guess, options, copy_of_test, about.has_bad_rows));
  }
  const bool has_validation = !files.validation.empty();
  if (!has_validation) about.validation.clear();
  about.train_rows = counts.train;
  const std::string text = StarterConfig(guess, about);
  SIMURGH_ASSIGN_OR_RETURN(const ClusterConfig config,
                           ParseClusterConfig(text, options.output, {}));
  SIMURGH_RETURN_IF_ERROR(Write(options.output, text));
  const std::string& model = config.checkpoint.directory;
  for (const std::string& folder_of_model : {model, TrialOf(model)}) {
    if (!FileSystem::For(folder_of_model).List(folder_of_model).ok()) continue;
    std::cout << folder_of_model
              << " is there, and training continues it; remove it to train anew\n";
  }
  std::cout << "wrote " << options.output << "; next:\n  " << OwnCommand() << " train "
            << ShellWord(options.output) << (has_validation ? " --refit" : "") << "\n";
  return ExitCode::kOk;
}

}  // namespace

ExitCode RunInitCommand(int argc, const char* const* argv) {
  namespace po = boost::program_options;
  InitOptions own;
  po::options_description options("Options");
  GuessOptions& guess = own.guess;
  const auto column = [](std::string* name) { return po::value(name)->value_name("COLUMN"); };
  const auto columns = [](std::vector<std::string>* names) {
    return po::value(names)->value_name("COLUMNS");
  };
  const auto rows = [&] { return po::value(&guess.max_rows)->value_name("N"); };
  options.add_options()(
      "output", po::value(&own.output)->value_name("FILE"),
      "write the configuration to FILE, and the parts to its folder (default: DATA with the "
      "ending .yaml)")(
      "label", column(&guess.label),
      "use this column as the label (default: by its name, or the only one with two values)")(
      "positive", po::value(&guess.positive)->value_name("VALUE"),
      "take VALUE as 1, of a label of two values (default: the one that means yes, or is rarer). "
      "With --retrieval: also the least rating of positive rows")("id", columns(&guess.ids),
                                                                  "use these columns as ids")(
      "dense", columns(&guess.dense), "use these columns as numbers")("skip", columns(&guess.skip),
                                                                      "leave these columns out")(
      "weight", column(&guess.weight), "use this column as the weight of the rows")(
      "group", column(&guess.group), "also compute the AUC within the rows of each of its ids")(
      "time", column(&guess.time),
      "split by this column's dates or numbers: train on the oldest rows, test on the newest")(
      "retrieval", po::bool_switch(&own.is_retrieval),
      "DATA has users and the items that they have chosen: write a model of two towers")(
      "items", po::value(&own.items)->value_name("FILE"),
      "with --retrieval: read the items from FILE, one row an item (default: those of DATA)")(
      "user", column(&own.user), "with --retrieval: use this column as the user")(
      "item", column(&own.item), "with --retrieval: use this column as the item")(
      "no-history", po::bool_switch(&own.no_history),
      "with --retrieval: give rows no column of the user's earlier items")(
      "test", po::value(&own.test)->value_name("FILE"), "test on FILE, and on no row of DATA")(
      "sample", rows(), "look at the first N rows (default: 200000)")(
      "kafka", po::value(&own.kafka)->value_name("BROKERS/TOPICS"),
      "train on records of Kafka like the JSON objects of DATA, for example "
      "localhost:9092/clicks; copies no rows")("force", po::bool_switch(&own.force),
                                               "replace existing files")("rows", rows(),
                                                                         "older name of --sample");
  const CommandHelp help{"init: writes a configuration that trains on a file", kInitUsage,
                         kInitNotes};
  const auto run = [&](const std::vector<std::string>& words) -> StatusOr<ExitCode> {
    if (words.empty()) return OptionProblem("init: DATA is missing");
    if (guess.max_rows == 0) return OptionProblem("--sample 0 is out of range; use 1 or more");
    const size_t slash = own.kafka.find('/');
    if (!own.kafka.empty() && (slash == 0 || slash >= own.kafka.size() - 1)) {
      return OptionProblem("--kafka " + own.kafka + ": give HOST:PORT/TOPIC");
    }
    guess.is_for_stream = !own.kafka.empty();
    own.data = words[0];
    guess.label_command = [&](const std::string& name) {
      return absl::StrCat(OwnCommand(), " init ", ShellWord(own.data), " --label ",
                          ShellWord(name));
    };
    return Init(own);
  };
  return RunCommand(argc, argv, help, options, 1, run);
}

}  // namespace simurgh
