#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serve/version_rows.h"

#include "simurgh/serve/predictor.h"

namespace simurgh {
namespace {

constexpr char kFile[] = "probe.csv";
constexpr uint64_t kMaxBytes = uint64_t{256}
                               << 20;  // Lines have at most 1 MiB, quotes are doubled.

// Largest difference of a probability, or of a number in parts of it or of 1. Products of lower
// precision differ between devices.
double Tolerance(ComputePrecision precision) {
  return precision == ComputePrecision::kF32 ? 1e-6 : 1e-2;
}

struct ProbeRow {
  std::vector<float> probabilities;  // By label.
  std::string line;
};

// Takes a quoted row and the line end behind it from `rest`; nothing if there is none.
std::optional<std::string> TakeQuoted(std::string_view& rest) {
  if (!rest.starts_with('"')) return std::nullopt;
  std::string row;
  for (size_t i = 1; i + 1 < rest.size(); ++i) {
    const bool is_quote = rest[i] == '"';
    if (is_quote && rest[i + 1] == '\n') {
      rest.remove_prefix(i + 2);
      return row;
    }
    if (is_quote && rest[++i] != '"') return std::nullopt;
    row.push_back(rest[i]);
  }
  return std::nullopt;
}

// Errors: DATA_LOSS, naming the row.
StatusOr<std::vector<ProbeRow>> Parse(std::string_view text, size_t tasks) {
  std::vector<ProbeRow> rows;
  std::string_view rest = text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
  while (!rest.empty()) {
    ProbeRow row;
    bool is_valid = true;
    for (size_t task = 0; task < tasks; ++task) {
      const size_t comma = std::min(rest.find(','), rest.size());
      float number = 0;
      const auto end = std::from_chars(rest.data(), rest.data() + comma, number);
      is_valid = is_valid && end.ec == std::errc() && end.ptr == rest.data() + comma;
      row.probabilities.push_back(number);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    const std::optional<std::string> line = TakeQuoted(rest);
    if (!is_valid || !line) {
      return absl::DataLossError(
          absl::StrCat(kFile, ": row ", rows.size() + 1,
                       " is not probabilities and a row of the data; use another checkpoint"));
    }
    row.line = *line;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

Status CheckProbe(const Checkpoint& checkpoint, const ModelVersion& model) {
  if (!checkpoint.Has(kFile)) return absl::OkStatus();
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, checkpoint.ReadText(kFile, kMaxBytes));
  const size_t tasks = model.format().labels.size();
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<ProbeRow> rows, Parse(text, tasks));
  const double tolerance = Tolerance(model.config().nn_worker.precision);
  SIMURGH_ASSIGN_OR_RETURN(Predictor predictor, Predictor::Create(model));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Status parsed = predictor.rows().AddLine(rows[i].line);
    if (parsed.ok()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.Path(kFile), ": row ", i + 1, ": ", std::string(parsed.message()),
                     "; use the plug-ins and vocabularies of the training"));
  }
  SIMURGH_ASSIGN_OR_RETURN(Batch batch, predictor.rows().Build());
  std::vector<float> probabilities;
  SIMURGH_RETURN_IF_ERROR(predictor.Predict(model, batch, probabilities));
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t task = 0; task < tasks; ++task) {
      const double found = probabilities[i * tasks + task];
      const double wanted = rows[i].probabilities[task];
      if (std::abs(found - wanted) <= tolerance * std::max(1.0, std::abs(wanted))) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          checkpoint.Path(kFile), ": row ", i + 1, ": the trainer predicted ", wanted,
          " for this row, this program predicts ", found, "; at most ", tolerance,
          " apart is allowed; use the plug-ins and vocabularies of the training, and the program's "
          "version of the training"));
    }
  }
  return absl::OkStatus();
}

}  // namespace simurgh
