#include "services/nn_worker/probe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "simurgh/base/file_descriptor.h"
#include "simurgh/base/log.h"
#include "simurgh/data/batch_reader.h"
#include "simurgh/data/row_lines.h"
#include "simurgh/data/row_text.h"

namespace simurgh {
namespace {

constexpr size_t kRows = 64;

struct ProbeRow {
  std::vector<float> probabilities;  // By label.
  std::string line;
};

StatusOr<std::vector<ProbeRow>> FirstRows(const ClusterConfig& config) {
  const std::vector<std::string>& files =
      config.data.test.empty() ? config.data.train : config.data.test;
  if (std::ranges::any_of(files, IsStream)) {
    return absl::FailedPreconditionError("rows of a stream cannot be read again; set data.test");
  }
  std::vector<ProbeRow> rows;
  if (files.empty()) return rows;  // A stream cannot be read again.
  ReadOptions reading;
  reading.on_row = [&](std::string_view line, bool in_batch) {
    // Rows of Parquet and Arrow data may be longer than lines of text can be.
    if (!in_batch || line.size() > kMaxLineBytes) return;
    rows.push_back({.probabilities = {}, .line = std::string(line)});
  };
  SIMURGH_ASSIGN_OR_RETURN(const auto reader,
                           OpenBatchReader(config.data, config.features, files, kRows, reading));
  SIMURGH_RETURN_IF_ERROR(reader->Next().status());
  return rows;
}

// Writes the lines into a file in memory. Readers open it as /proc/self/fd/N.
StatusOr<FileDescriptor> WriteLines(const DataConfig& data, const std::vector<ProbeRow>& rows) {
  const DataConfig lines = LinesOf(data);
  const bool has_header = lines.format == DataConfig::Format::kCsv && lines.csv.header;
  std::string text = has_header ? CsvHeader(lines) + "\n" : "";
  for (const ProbeRow& row : rows) absl::StrAppend(&text, row.line, "\n");
  FileDescriptor file(memfd_create("simurgh-probe", MFD_CLOEXEC));
  for (size_t written = 0; file.valid() && written < text.size();) {
    const ssize_t count = write(file.number(), text.data() + written, text.size() - written);
    if (count < 0) return ErrnoStatus(errno, "probe.csv: cannot copy its rows");
    written += static_cast<size_t>(count);
  }
  if (!file.valid()) return ErrnoStatus(errno, "probe.csv: cannot copy its rows");
  return file;
}

// Sets the rows' probabilities.
Status PredictRows(TrainingJob& job, EmbeddingPort& port, uint64_t run, uint64_t steps,
                   std::vector<ProbeRow>& rows) {
  SIMURGH_ASSIGN_OR_RETURN(const FileDescriptor file, WriteLines(job.config().data, rows));
  size_t next = 0;
  ReadOptions reading{.are_lines = true};
  std::vector<bool> is_good;
  reading.on_row = [&](std::string_view /*line*/, bool in_batch) { is_good.push_back(in_batch); };
  std::vector<float> all;
  const auto sink = [&](const Batch& /*batch*/, std::span<const float> probabilities) {
    all.insert(all.end(), probabilities.begin(), probabilities.end());
    return absl::OkStatus();
  };
  SIMURGH_RETURN_IF_ERROR(job.Predict(port, run, steps,
                                      {absl::StrCat("/proc/self/fd/", file.number())}, reading,
                                      /*evaluates=*/false, sink)
                              .status());
  const size_t tasks = LabelColumns(job.config().data).size();
  if (is_good.size() != rows.size() || all.size() != rows.size() * tasks) {
    return absl::FailedPreconditionError(
        absl::StrCat("probe.csv: only ", all.size() / tasks, " of its ", rows.size(),
                     " rows can be parsed; use the plug-ins and vocabularies of the training"));
  }
  for (ProbeRow& row : rows) {
    const auto begin = all.begin() + static_cast<ptrdiff_t>(next);
    row.probabilities.assign(begin, begin + static_cast<ptrdiff_t>(tasks));
    next += tasks;
  }
  return absl::OkStatus();
}

StatusOr<std::string> Describe(TrainingJob& job, EmbeddingPort& port, uint64_t run,
                               uint64_t steps) {
  SIMURGH_ASSIGN_OR_RETURN(std::vector<ProbeRow> rows, FirstRows(job.config()));
  if (rows.empty()) return "";
  SIMURGH_RETURN_IF_ERROR(PredictRows(job, port, run, steps, rows));
  const std::vector<std::string> labels = LabelColumns(job.config().data);
  std::string text;
  for (const std::string& label : labels) {
    AppendCsvCell(labels.size() == 1 ? "p" : absl::StrCat("p_", label), text);
    text.push_back(',');
  }
  text.append("row\n");
  for (const ProbeRow& row : rows) {
    for (const float probability : row.probabilities) {
      std::array<char, 32> digits;
      const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), probability);
      text.append(digits.data(), end.ptr).push_back(',');
    }
    text.push_back('"');
    text.append(absl::StrJoin(absl::StrSplit(row.line, '"'), "\"\"")).append("\"\n");
  }
  return text;
}

}  // namespace

std::string MakeProbe(TrainingJob& job, EmbeddingPort& port, uint64_t run, uint64_t steps) {
  StatusOr<std::string> text = Describe(job, port, run, steps);
  if (text.ok()) return *std::move(text);
  spdlog::warn("the model is saved without probe.csv: {}", std::string(text.status().message()));
  return "";
}

}  // namespace simurgh
