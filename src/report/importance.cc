#include "report/importance.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <ranges>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/hash.h"
#include "base/mutex.h"
#include "base/random.h"
#include "data/reading/line_cells.h"
#include "data/reading/row_text.h"
#include "predict/predictor.h"
#include "report/cell_table.h"

namespace simurgh {
namespace {

constexpr uint64_t kSeed = 0x5157'a2c1;

constexpr size_t kBatchRows = 1'024;

// Rows that a thread takes at a time.
constexpr size_t kTakenRows = 32;

// Most predictions, and so the memory, see MeasureImportance().
constexpr size_t kMostPredictions = size_t{1} << 25;

std::vector<uint32_t> Permutation(size_t rows, uint64_t seed) {
  std::vector<uint32_t> all(rows);
  std::iota(all.begin(), all.end(), 0U);
  Random random(seed);
  for (size_t i = rows; i > 1; --i) std::swap(all[i - 1], all[random.Below(i)]);
  return all;
}

// The indices of columns among the cells of RowBatcher::AddCells().
using Places = std::vector<size_t>;

// Predicts rows with permuted cells, on several threads.
class PermutedPredictions {
 public:
  PermutedPredictions(const ModelVersion& model, const DataConfig& lines, const CellTable& cells,
                      const ImportanceOptions& options, std::vector<Places> groups)
      : model_(model),
        lines_(lines),
        cells_(cells),
        options_(options),
        groups_(std::move(groups)),
        labels_(model.format().labels.size()),
        original_(labels_, std::vector<float>(cells.rows())) {
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (uint32_t r = 0; r < options.repeats; ++r) {
        permutations_.push_back(
            Permutation(cells.rows(), Mix64(kSeed + g) + r * Random::kIncrement));
        for (size_t label = 0; label < labels_; ++label) {
          permuted_.emplace_back(cells.rows(), std::numeric_limits<float>::quiet_NaN());
        }
      }
    }
  }

  Status Run() {
    std::vector<std::jthread> others;
    for (uint32_t i = 1; i < options_.threads; ++i) {
      others.emplace_back([this] { Work(); });
    }
    Work();
    others.clear();
    MutexLock lock(mutex_);
    return result_;
  }

  // Predictions of a label, one per row.
  const std::vector<float>& original(size_t label) const { return original_[label]; }
  std::vector<std::vector<float>> permuted(size_t group, size_t label) {
    std::vector<std::vector<float>> repeats;
    for (uint32_t r = 0; r < options_.repeats; ++r) {
      repeats.push_back(std::move(permuted_[VariantOf(group, r) * labels_ + label]));
      for (size_t row = 0; row < cells_.rows(); ++row) {  // A row whose cell has stayed equal.
        if (std::isnan(repeats[r][row])) repeats[r][row] = original_[label][row];
      }
    }
    return repeats;
  }
  std::span<const std::vector<uint32_t>> permutations(size_t group) const {
    return std::span(permutations_).subspan(VariantOf(group, 0), options_.repeats);
  }

 private:
  static constexpr size_t kOriginal = SIZE_MAX;

  // A row of a batch: which row of the sample with which permutation.
  struct Target {
    size_t row;
    size_t variant;  // Or kOriginal.
  };

  size_t VariantOf(size_t group, uint32_t repeat) const {
    return group * options_.repeats + repeat;
  }

  void Work() {
    const Status status = Predict();
    if (status.ok()) return;
    MutexLock lock(mutex_);
    if (result_.ok()) result_ = status;
    next_ = cells_.rows();
  }

  Status Predict() {
    SIMURGH_ASSIGN_OR_RETURN(Predictor predictor,
                             Predictor::Create(model_, {.ignore_labels = true, .data = &lines_}));
    std::vector<Target> targets;
    for (;;) {
      const size_t first = next_.fetch_add(kTakenRows);
      if (first >= cells_.rows()) return absl::OkStatus();
      const size_t end = std::min(first + kTakenRows, cells_.rows());
      for (size_t row = first; row < end; ++row) {
        SIMURGH_RETURN_IF_ERROR(AddRow(predictor, row, targets));
      }
      SIMURGH_RETURN_IF_ERROR(Flush(predictor, targets));
      if (!options_.progress) continue;
      MutexLock lock(mutex_);
      done_ += end - first;
      options_.progress(done_);
    }
  }

  // Adds a row as it is, and with each permutation that changes it.
  Status AddRow(Predictor& predictor, size_t row, std::vector<Target>& targets) {
    const size_t columns = cells_.columns();
    std::vector<const Cell*> cells(columns);
    for (size_t c = 0; c < columns; ++c) cells[c] = &cells_.cell(row, c);
    const auto repeated = std::make_unique<bool[]>(columns);
    std::span<const size_t> changed;  // Columns in which the row before differs from the row.
    bool is_first = true;
    const auto add = [&](size_t variant, std::span<const size_t> now) -> Status {
      if (targets.size() == kBatchRows) {
        SIMURGH_RETURN_IF_ERROR(Flush(predictor, targets));
        is_first = true;
      }
      std::fill_n(repeated.get(), columns, true);
      for (const size_t c : changed) repeated[c] = false;
      for (const size_t c : now) repeated[c] = false;
      const std::span<const bool> flags(repeated.get(), columns);
      SIMURGH_RETURN_IF_ERROR(
          predictor.rows().AddCells(cells, is_first ? std::span<const bool>() : flags));
      is_first = false;
      changed = now;
      targets.push_back({row, variant});
      return absl::OkStatus();
    };
    SIMURGH_RETURN_IF_ERROR(add(kOriginal, {}));
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (uint32_t r = 0; r < options_.repeats; ++r) {
        const size_t variant = VariantOf(g, r);
        const size_t donor = permutations_[variant][row];
        bool is_equal = true;
        for (const size_t c : groups_[g]) {
          cells[c] = &cells_.cell(donor, c);
          is_equal = is_equal && AreEqual(*cells[c], cells_.cell(row, c));
        }
        if (!is_equal) SIMURGH_RETURN_IF_ERROR(add(variant, groups_[g]));
        for (const size_t c : groups_[g]) cells[c] = &cells_.cell(row, c);
      }
    }
    return absl::OkStatus();
  }

  Status Flush(Predictor& predictor, std::vector<Target>& targets) {
    if (targets.empty()) return absl::OkStatus();
    SIMURGH_ASSIGN_OR_RETURN(Batch batch, predictor.rows().Build());
    std::vector<float> predictions;
    SIMURGH_RETURN_IF_ERROR(predictor.Predict(model_, batch, predictions));
    for (size_t i = 0; i < targets.size(); ++i) {
      const auto [row, variant] = targets[i];
      for (size_t label = 0; label < labels_; ++label) {
        std::vector<float>& to =
            variant == kOriginal ? original_[label] : permuted_[variant * labels_ + label];
        to[row] = predictions[i * labels_ + label];
      }
    }
    targets.clear();
    return absl::OkStatus();
  }

  const ModelVersion& model_;
  const DataConfig& lines_;
  const CellTable& cells_;
  const ImportanceOptions& options_;
  const std::vector<Places> groups_;
  const size_t labels_;
  std::vector<std::vector<uint32_t>> permutations_;  // One per group and repeat.
  std::vector<std::vector<float>> original_;         // One per label.
  std::vector<std::vector<float>> permuted_;         // One per group, repeat and label.
  std::atomic<size_t> next_ = 0;                     // First row that no thread has taken.
  Mutex mutex_;
  size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  Status result_ ABSL_GUARDED_BY(mutex_);
};

// Returns the indices of groups' columns. Requires that the columns exist.
std::vector<Places> PlacesOf(const std::vector<ColumnGroup>& groups, const DataConfig& data) {
  std::vector<std::string> names;
  for (const ColumnConfig& column : ColumnsOf(data)) {
    if (!IsTarget(column.kind)) names.push_back(column.name);
  }
  std::vector<Places> places;
  for (const ColumnGroup& group : groups) {
    Places& own = places.emplace_back();
    for (const std::string& name : group) {
      own.push_back(static_cast<size_t>(std::ranges::find(names, name) - names.begin()));
    }
  }
  return places;
}

}  // namespace

StatusOr<std::vector<ColumnGroup>> ColumnGroupsOf(const ModelVersion& model,
                                                  const std::vector<ColumnGroup>& given) {
  std::vector<std::string> read;
  for (const RowFormat::Column& column : model.format().columns) {
    if (column.is_read) read.push_back(column.name);
  }
  std::set<std::string> used;
  for (const std::string& name : std::views::join(given)) {
    if (std::ranges::find(read, name) == read.end()) {
      return absl::InvalidArgumentError(absl::StrCat("--groups: the model reads no column '", name,
                                                     "'; use some of ", absl::StrJoin(read, ", ")));
    }
    if (!used.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--groups: '", name, "' is there twice; a column can be in one group"));
    }
  }
  std::vector<ColumnGroup> groups = given;
  for (const std::string& name : read) {
    if (!used.contains(name)) groups.push_back({name});
  }
  return groups;
}

size_t DefaultImportanceRows(size_t groups, uint32_t repeats) {
  constexpr size_t kPredictions = 8'000'000;
  constexpr size_t kFewest = 1'000;
  constexpr size_t kMost = 50'000;
  return std::clamp(kPredictions / std::max<size_t>(groups * repeats, 1), kFewest, kMost);
}

size_t MostImportanceRows(size_t groups, uint32_t repeats, size_t labels) {
  return kMostPredictions / std::max<size_t>(groups * repeats * labels, 1);
}

StatusOr<Importance> MeasureImportance(const ModelVersion& model, const DataConfig& data,
                                       const ImportanceRows& rows,
                                       const ImportanceOptions& options) {
  const DataConfig lines = LinesOf(data);
  const size_t labels = model.format().labels.size();
  const std::vector<TaskConfig> tasks = TasksOf(model.config().model);
  Importance found{
      .rows = rows.lines.size(), .repeats = options.repeats, .metrics = {}, .columns = {}};
  CellTable cells;
  LineCells splitter(lines);
  for (size_t row = 0; row < found.rows; ++row) {
    SIMURGH_ASSIGN_OR_RETURN(const std::span<const Cell> split,
                             splitter.Split(rows.lines[row], /*columns=*/nullptr));
    cells.AddRow(split);
  }
  PermutedPredictions predictions(model, lines, cells, options, PlacesOf(options.groups, data));
  SIMURGH_RETURN_IF_ERROR(predictions.Run());
  for (const ColumnGroup& group : options.groups) found.columns.push_back({group, {}});
  PredictedSample sample = rows.sample;
  for (size_t label = 0; label < labels; ++label) {
    std::vector<float> values(found.rows);
    for (size_t row = 0; row < found.rows; ++row) {
      values[row] = sample.labels[row * labels + label];
      sample.predictions[row * labels + label] = predictions.original(label)[row];
    }
    const LossConfig::Kind kind = tasks[label].loss.kind;
    found.metrics.push_back(MetricsOf(sample.RowsOf(label), kind));
    const PermutationTest test(kind, values, predictions.original(label), sample.weights);
    for (size_t g = 0; g < options.groups.size(); ++g) {
      found.columns[g].effects.push_back(
          test.Measure(predictions.permutations(g), predictions.permuted(g, label)));
    }
  }
  std::ranges::sort(found.columns, {}, [](const ColumnImportance& column) {
    const double mean = column.effects.front().loss.mean;
    return std::pair(std::isnan(mean) ? HUGE_VAL : -mean, column.columns);
  });
  return found;
}

}  // namespace simurgh
