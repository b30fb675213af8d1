#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status.h"
#include "base/text.h"
#include "data/reading/json_events.h"
#include "predict/model_version.h"
#include "predict/predictor.h"

namespace simurgh {

// The problems of a request: the texts of the first ten, and the number of others.
class Problems {
 public:
  static constexpr size_t kShown = ScoredRows::kMaxProblems;

  void Add(std::string problem) {
    if (shown_.size() < kShown) shown_.push_back(std::move(problem));
    ++count_;
  }
  // Counts further problems, without a text.
  void AddMore(size_t count) { count_ += count; }

  bool empty() const { return count_ == 0; }
  // Returns whether a search for further problems is needless.
  bool full() const { return count_ > kShown; }
  // Returns one line per problem.
  std::string Text() const {
    std::string text = absl::StrJoin(shown_, "\n");
    if (count_ > shown_.size()) absl::StrAppend(&text, "\nand ", count_ - shown_.size(), " more");
    return text;
  }

 private:
  std::vector<std::string> shown_;
  size_t count_ = 0;
};

// Rows with a cell that is not a value of its column.
struct BadRows {
  std::set<size_t> rows;  // Counted from 0.
  Problems problems;

  void Add(size_t row, std::string problem) {
    rows.insert(row);
    problems.Add(std::move(problem));
  }
};

// Returns a value for a message: in quotes, printable and not too long.
inline std::string Shown(std::string_view value) {
  constexpr size_t kMaxBytes = 64;
  const bool is_cut = value.size() > kMaxBytes;
  return absl::StrCat("'", PrintableLine(std::string(value.substr(0, kMaxBytes))),
                      is_cut ? "..." : "", "'");
}

// The body of a request, and those texts of its cells that the body does not contain literally.
//
// Threads: one writer; then immutable.
class RequestMemory {
 public:
  explicit RequestMemory(std::string body) : body_(std::move(body)) {}
  RequestMemory(const RequestMemory&) = delete;
  RequestMemory& operator=(const RequestMemory&) = delete;

  std::string_view body() const { return body_; }
  // Returns the allocated memory, without the body.
  size_t copied_bytes() const { return copied_bytes_; }
  bool IsInBody(std::string_view text) const {
    return text.data() >= body_.data() && text.data() + text.size() <= body_.data() + body_.size();
  }

  // Copies a text that is not in the body.
  std::string_view Keep(std::string_view text) { return IsInBody(text) ? text : Copy(text); }
  std::string_view Copy(std::string_view text) {
    char* const copy = Allocate<char>(text.size());
    std::copy(text.begin(), text.end(), copy);
    return {copy, text.size()};
  }
  std::span<const std::string_view> Copy(std::span<const std::string_view> texts) {
    auto* const copy = Allocate<std::string_view>(texts.size());
    std::uninitialized_copy(texts.begin(), texts.end(), copy);
    return {copy, texts.size()};
  }

 private:
  template <typename T>
  T* Allocate(size_t count) {
    copied_bytes_ += count * sizeof(T);
    return static_cast<T*>(arena_.allocate(count * sizeof(T), alignof(T)));
  }

  const std::string body_;
  size_t copied_bytes_ = 0;
  std::pmr::monotonic_buffer_resource arena_;
};

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
  BadRows bad;  // Their bad cells count as missing in `rows`.
  std::string id;
  std::optional<std::chrono::microseconds> timeout;
  std::vector<Output> outputs;  // Used by v2 only.
  bool is_columnar = false;     // In v1: `inputs`, not `instances`.
  size_t cell_bytes = 0;        // Memory of the cells, without the body.
};

// A model's name and step, for responses.
struct ModelName {
  std::string name;
  uint64_t step = 0;
};

// Limits of a request.
struct RequestLimits {
  size_t max_rows = 4'096;
  size_t max_list_ids = size_t{1} << 20;  // Ids in all arrays; each takes 16 bytes of memory.
  bool allows_bad_rows = false;
  bool ignores_unknown = false;  // Ignores columns that the model does not have, and labels.
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
  // Returns the value with its text in the memory.
  JsonScalar Kept(const JsonScalar& value) {
    if (value.kind != JsonScalar::Kind::kText) return value;
    return {value.kind, memory_->Keep(value.text)};
  }
  std::vector<Cell>& cells(size_t column) { return request_.columns[column]; }
  Problems& problems() { return problems_; }
  BadRows& bad() { return bad_; }

  // Returns the index of the format's column with this name, or with this name in files. Returns
  // nothing if there is none, which is a problem unless the limits ignore it.
  // place: word for the problem, "input".
  std::optional<size_t> Find(std::string_view name, const char* place);

  // Returns "<place> 'age', row 3".
  std::string Place(const char* place, size_t column, size_t row) const;

  // Stops because of too many rows. Errors later in the document are not reported.
  void RefuseRows(size_t rows);
  // Counts an id of an array. Stops and returns false if there are too many.
  bool CountListId();
  bool gave_up() const {
    return !too_many_.ok() || problems_.full() ||
           (!limits_.allows_bad_rows && bad_.problems.full());
  }

  // Parses a part of the memory's body. Errors: see ParseJson.
  static Status Parse(std::string_view json, JsonEvents& events) {
    const Status parsed = ParseJson(json, events);
    if (parsed.ok()) return parsed;
    return absl::InvalidArgumentError(absl::StrCat("the body is ", parsed.message()));
  }

  // Returns the request.
  // Errors: OUT_OF_RANGE for more rows or ids than the limits; INVALID_ARGUMENT with the problems.
  // Bad rows are an error only if they are not allowed.
  StatusOr<PredictRequest> Finish(size_t rows);

 private:
  std::string NearestColumn(std::string_view name) const;

  const RowFormat& format_;
  const RequestLimits limits_;
  const std::shared_ptr<RequestMemory> memory_;
  ScoreRequest request_;
  Problems problems_;
  BadRows bad_;
  Status too_many_;
  bool has_column_ = false;
  bool has_ignored_ = false;
  std::string first_ignored_;  // Name of the first ignored column.
  size_t list_ids_ = 0;
  size_t next_ = 0;  // First guess of Find: columns are mostly in the order of the format.
};

// Receives the values of keys of a v1 body that are not about rows.
class OtherKeys : public JsonEvents {
 public:
  // Returns the keys for an error: "a, b or c".
  virtual const char* names() const = 0;
  // Returns whether the events of the next value are for this object.
  virtual bool Takes(std::string_view key) = 0;
};

// Decodes the v1 protocol: {"instances": [{"column": value, ...}, ...], "common": {...}}, or
// {"inputs": {"column": [value, ...], ...}}.
// A text or a number is the cell as it would be in a file; null or no key: missing; an array: the
// ids of a list. `common` has the columns that all instances share. In `inputs`, a column with one
// value holds for all rows, and a value may be in an array of its own.
//
// Errors: INVALID_ARGUMENT with the first ten problems, OUT_OF_RANGE for too many rows or ids.
// others: of further keys; null: they are errors.
StatusOr<PredictRequest> DecodeV1(const RowFormat& format, const RequestLimits& limits,
                                  std::shared_ptr<RequestMemory> memory,
                                  OtherKeys* others = nullptr);

// Returns {"predictions": [...], "model_version": "120"}, with a number for each row, or a list
// with one for each label. Bad rows are null. Columnar: {"outputs": [...]}, or an object with a
// list for each label.
EncodedBody EncodeV1(const RowFormat& format, const ModelName& model, bool is_columnar,
                     const ScoredRows& rows);

// The Open Inference Protocol, version 2, with the binary tensor extension.
//
// Inputs are the columns, one tensor each, of shape [N] or [N,1]; a tensor of one element holds for
// all rows. BYTES: the cell as in a file. INT64: its decimal text. FP64, FP32: a dense column.
// Outputs: an FP32 tensor of shape [N,1] for each label.

// json_bytes: Inference-Header-Content-Length; binary tensors follow. Binary texts refer to the
// body.
// Errors: INVALID_ARGUMENT with the first ten problems, OUT_OF_RANGE for too many rows.
StatusOr<PredictRequest> DecodeV2(const RowFormat& format, const RequestLimits& limits,
                                  std::optional<size_t> json_bytes,
                                  std::shared_ptr<RequestMemory> memory);

// Encodes a response with the request's id and outputs. Bad rows are null, NaN in binary tensors.
EncodedBody EncodeV2(const RowFormat& format, const ModelName& model, const PredictRequest& request,
                     const ScoredRows& rows);

// Bodies for GET of /v2, /v2/models/NAME and /v2/models/NAME/config.
std::string ServerMetadata();
std::string ModelMetadata(const RowFormat& format, const std::string& name,
                          const std::vector<uint64_t>& steps);
std::string ModelConfigJson(const RowFormat& format, const std::string& name, size_t max_rows);

}  // namespace simurgh
