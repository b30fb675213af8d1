// The C++ path of a few rows: an Arrow table in memory, to the inputs of a network.
//
// Usage: bench_features MODEL ROWS CALLS
// ROWS: lines of the Criteo format, without missing cells. Prints the CPU time of a call, in
// microseconds.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "data/reading/arrow_source.h"
#include "model/model_directory.h"
#include "predict/model_version.h"
#include "predict/predictor.h"

namespace simurgh {
namespace {

// A table whose arrays live as long as it does.
class Table {
 public:
  explicit Table(const std::vector<std::string>& lines) : columns_(kColumns) {
    rows_ = static_cast<int64_t>(lines.size());
    for (const std::string& line : lines) {
      const std::vector<std::string> cells = absl::StrSplit(line, '\t');
      for (size_t i = 0; i < kColumns; ++i) Add(cells[i + 1], columns_[i]);
    }
    for (size_t i = 0; i < kColumns; ++i) {
      const bool is_number = i < kNumbers;
      Column& column = columns_[i];
      column.name = is_number ? absl::StrCat("I", i + 1) : absl::StrCat("C", i + 1 - kNumbers);
      column.schema = {.format = is_number ? "l" : "vu",
                       .name = column.name.c_str(),
                       .release = [](ArrowSchema* schema) { schema->release = nullptr; }};
      column.bytes = static_cast<int64_t>(column.texts.size());
      column.buffers = {nullptr, column.views.data(), column.texts.data(), &column.bytes};
      if (is_number) column.buffers[1] = column.numbers.data();
      column.array = {.length = rows_,
                      .n_buffers = is_number ? 2 : 4,
                      .buffers = column.buffers.data(),
                      .release = [](ArrowArray* array) { array->release = nullptr; }};
      schemas_.push_back(&column.schema);
      arrays_.push_back(&column.array);
    }
  }

  ArrowArrayStream Stream() {
    left_ = true;
    return {.get_schema =
                [](ArrowArrayStream* stream, ArrowSchema* schema) {
                  return static_cast<Table*>(stream->private_data)->SetSchema(schema);
                },
            .get_next =
                [](ArrowArrayStream* stream, ArrowArray* array) {
                  return static_cast<Table*>(stream->private_data)->SetNext(array);
                },
            .get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; },
            .release = [](ArrowArrayStream* stream) { stream->release = nullptr; },
            .private_data = this};
  }

 private:
  static constexpr size_t kNumbers = 13;
  static constexpr size_t kColumns = 39;

  struct Column {
    std::string name;
    std::vector<int64_t> numbers;
    std::vector<std::array<int32_t, 4>> views;  // Texts, as polars has them.
    std::string texts;
    int64_t bytes;  // Size of `texts`.
    ArrowSchema schema;
    ArrowArray array;
    std::array<const void*, 4> buffers;
  };

  static void Add(const std::string& cell, Column& column) {
    int64_t number = 0;
    (void)absl::SimpleAtoi(cell, &number);
    column.numbers.push_back(number);
    // A text of at most 12 bytes is in the view; else it has the place of the text.
    std::array<int32_t, 4> view = {static_cast<int32_t>(cell.size())};
    if (cell.size() <= 12) {
      std::memcpy(&view[1], cell.data(), cell.size());
    } else {
      std::memcpy(&view[1], cell.data(), 4);
      view[3] = static_cast<int32_t>(column.texts.size());
      column.texts += cell;
    }
    column.views.push_back(view);
  }

  int SetSchema(ArrowSchema* schema) {
    *schema = {.format = "+s",
               .name = "",
               .n_children = static_cast<int64_t>(schemas_.size()),
               .children = schemas_.data(),
               .release = [](ArrowSchema* one) { one->release = nullptr; }};
    return 0;
  }
  int SetNext(ArrowArray* array) {
    *array = {};
    if (!std::exchange(left_, false)) return 0;
    *array = {.length = rows_,
              .n_buffers = 1,
              .n_children = static_cast<int64_t>(arrays_.size()),
              .buffers = no_nulls_.data(),
              .children = arrays_.data(),
              .release = [](ArrowArray* one) { one->release = nullptr; }};
    return 0;
  }

  int64_t rows_ = 0;
  bool left_ = false;
  std::array<const void*, 1> no_nulls_ = {nullptr};
  std::vector<Column> columns_;
  std::vector<ArrowSchema*> schemas_;
  std::vector<ArrowArray*> arrays_;
};

double CpuMicros() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Prints the sum of all numbers of a call, too, so that no compiler leaves them out.
Status Run(const std::string& model, const std::string& rows, int calls) {
  constexpr int kWarmUp = 50;
  constexpr size_t kBatchRows = 4'096;
  SIMURGH_ASSIGN_OR_RETURN(const ModelDirectory::Newest found, ModelDirectory::Find(model));
  SIMURGH_ASSIGN_OR_RETURN(const auto version,
                           ModelVersion::Load(found.checkpoint, {},
                                              [](uint64_t, uint64_t) { return absl::OkStatus(); }));
  SIMURGH_ASSIGN_OR_RETURN(Predictor predictor, Predictor::Create(*version));
  std::ifstream file(rows);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  Table table(lines);
  const auto tables =
      NewArrowTableBatcher(version->config().data, version->config().features, kBatchRows,
                           {.ignore_labels = true, .short_batches = true});
  double begin = 0;
  double sum = 0;
  for (int call = -kWarmUp; call < calls; ++call) {
    if (call == 0) begin = CpuMicros();
    sum = 0;
    ArrowArrayStream stream = table.Stream();
    SIMURGH_RETURN_IF_ERROR(tables->Add(&stream));
    while (true) {
      SIMURGH_ASSIGN_OR_RETURN(std::optional<Batch> batch, tables->Next());
      if (!batch) break;
      SIMURGH_ASSIGN_OR_RETURN(const auto embeddings, predictor.Embeddings(*version, *batch));
      sum += embeddings.flat().back() + batch->dense.values.back();
    }
  }
  std::cout << (CpuMicros() - begin) / calls << " " << sum << "\n";
  return absl::OkStatus();
}

}  // namespace
}  // namespace simurgh

int main(int argc, char** argv) {
  int calls = 0;
  if (argc != 4 || !absl::SimpleAtoi(argv[3], &calls) || calls < 1) {
    std::cerr << "usage: bench_features MODEL ROWS CALLS\n";
    return 2;
  }
  const simurgh::Status status = simurgh::Run(argv[1], argv[2], calls);
  if (!status.ok()) std::cerr << "bench_features: " << status.message() << "\n";
  return status.ok() ? 0 : 3;
}
