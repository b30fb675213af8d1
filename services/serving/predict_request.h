#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/serving/problems.h"
#include "services/serving/request_memory.h"
#include "simurgh/base/status.h"
#include "simurgh/data/json_events.h"
#include "simurgh/serve/model_version.h"
#include "simurgh/serve/score_request.h"

namespace simurgh {

// A response without its status line.
struct EncodedBody {
  std::string content_type = "application/json";
  std::optional<size_t> json_bytes;  // Inference-Header-Content-Length: tensors follow the JSON.
  std::string bytes;
};

// A decoded request for predictions, of either protocol.
struct PredictRequest {
  struct Output {
    size_t label = 0;  // Index in RowFormat::labels.
    bool is_binary = false;
  };

  ScoreRequest rows;
  BadRows bad;  // Their bad cells are missing in `rows`.
  std::string id;
  std::optional<std::chrono::microseconds> timeout;
  std::vector<Output> outputs;
  size_t cell_bytes = 0;  // Memory of the cells, without the body.
};

// A model's name and step, for responses.
struct ModelName {
  std::string name;
  uint64_t step = 0;
};

// What a request may have.
struct RequestLimits {
  size_t max_rows = 4'096;
  size_t max_list_ids = size_t{1} << 20;  // In all arrays; each takes 16 bytes.
  bool allows_bad_rows = false;
};

// Collects the cells of a request, column by column.
class CellCollector {
 public:
  // format, memory: outlive this object.
  CellCollector(const RowFormat& format, const RequestLimits& limits,
                std::shared_ptr<RequestMemory> memory);

  const RowFormat& format() const { return format_; }
  size_t max_rows() const { return limits_.max_rows; }
  RequestMemory& memory() { return *memory_; }
  // The value with its text in the memory.
  JsonScalar Kept(const JsonScalar& value) {
    if (value.kind != JsonScalar::Kind::kText) return value;
    return {value.kind, memory_->Keep(value.text)};
  }
  std::vector<Cell>& cells(size_t column) { return request_.columns[column]; }
  Problems& problems() { return problems_; }
  BadRows& bad() { return bad_; }

  // The index of a column of the format. Nothing, and a problem, if there is none of this name.
  // place: for the problem, as "input".
  std::optional<size_t> Find(std::string_view name, const char* place);

  // "<place> 'age', row 3", where `where` is the column.
  std::string Place(const char* place, size_t column, size_t row) const;

  // Gives up: too many rows. Errors later in the document are not reported.
  void RefuseRows(size_t rows);
  // Counts an id of an array. Gives up and returns false if there are too many.
  bool CountListId();
  bool gave_up() const {
    return !too_many_.ok() || problems_.full() ||
           (!limits_.allows_bad_rows && bad_.problems.full());
  }

  // Parses a part of the memory's body. Errors: of ParseJson.
  static Status Parse(std::string_view json, JsonEvents& events) {
    const Status parsed = ParseJson(json, events);
    if (parsed.ok()) return parsed;
    return absl::InvalidArgumentError(absl::StrCat("the body is ", parsed.message()));
  }

  // Errors: OUT_OF_RANGE for more rows or ids than the limits; INVALID_ARGUMENT with the problems.
  // Bad rows are an error only if they are not allowed.
  StatusOr<PredictRequest> Finish(size_t rows);

 private:
  const RowFormat& format_;
  const RequestLimits limits_;
  const std::shared_ptr<RequestMemory> memory_;
  ScoreRequest request_;
  Problems problems_;
  BadRows bad_;
  Status too_many_;
  size_t list_ids_ = 0;
  size_t next_ = 0;  // Columns are mostly in the order of the format.
};

// {"error": text}
std::string ErrorJson(std::string_view text);

}  // namespace simurgh
