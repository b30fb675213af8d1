#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "absl/strings/charconv.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/version.h"
#include "services/serving/predict_request.h"

namespace simurgh {
namespace {

static_assert(std::endian::native == std::endian::little, "binary tensors are little-endian");

constexpr char kInput[] = "input";
constexpr size_t kLengthBytes = sizeof(uint32_t);  // A length precedes each BYTES element.

enum class Datatype { kUnknown, kBytes, kInt64, kFp64, kFp32 };

Datatype DatatypeOf(std::string_view name) {
  if (name == "BYTES") return Datatype::kBytes;
  if (name == "INT64") return Datatype::kInt64;
  if (name == "FP64") return Datatype::kFp64;
  if (name == "FP32") return Datatype::kFp32;
  return Datatype::kUnknown;
}

// An input, as the JSON part of a request describes it.
struct Tensor {
  std::string_view name;
  std::string_view datatype;
  std::vector<uint64_t> shape;
  bool has_shape = false;
  bool has_data = false;
  std::optional<uint64_t> binary_bytes;
};

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// Turns tensors into cells.
class TensorReader {
 public:
  TensorReader(CellCollector& cells, std::string_view binary)
      : cells_(cells),
        binary_(binary),
        given_(cells.format().columns.size(), false),
        is_bad_(cells.format().columns.size(), false) {}

  // data: the elements of the JSON, row by row.
  void Take(const Tensor& tensor, std::span<const JsonScalar> data) {
    // The bytes of a tensor with a problem are skipped, so that the next ones are read right.
    std::string_view bytes;
    if (tensor.binary_bytes) {
      if (*tensor.binary_bytes > binary_.size()) {
        binary_ = {};
        is_short_ = true;
        return Refuse(tensor, absl::StrCat("binary_data_size is ", *tensor.binary_bytes,
                                           ", but fewer bytes follow; correct it"));
      }
      bytes = binary_.substr(0, *tensor.binary_bytes);
      binary_.remove_prefix(bytes.size());
    }
    if (tensor.name.data() == nullptr) {
      return cells_.problems().Add("inputs: an input has no name; name it like a column");
    }
    const std::optional<size_t> column = cells_.Find(tensor.name, kInput);
    if (!column) return;
    if (given_[*column]) return Refuse(tensor, "is given twice; remove one");
    given_[*column] = true;
    const std::optional<size_t> rows = CheckedRows(tensor, *column);
    if (!rows) return;
    if (*rows > cells_.max_rows()) return cells_.RefuseRows(*rows);
    rows_ = std::max(rows_, *rows);
    if (!cells_.format().columns[*column].is_read) return;
    std::vector<Cell>& cells = cells_.cells(*column);
    cells.reserve(*rows);
    if (tensor.binary_bytes && tensor.has_data) {
      Refuse(tensor, "has data and binary_data_size; send one of them");
    } else if (tensor.binary_bytes) {
      TakeBinary(tensor, *column, *rows, bytes, cells);
    } else if (!tensor.has_data) {
      Refuse(tensor, "has no data; send `data`, or a binary tensor with binary_data_size");
    } else if (data.size() != *rows) {
      Refuse(tensor, absl::StrCat("has ", data.size(), " elements, but shape ",
                                  ShapeText(tensor.shape), "; correct one of them"));
    } else {
      for (size_t row = 0; row < *rows; ++row) {
        cells.push_back(CellOf(DatatypeOf(tensor.datatype), data[row], *column, row));
      }
    }
  }

  // Makes the checks that need all tensors. Returns the number of rows.
  size_t Finish() {
    if (cells_.gave_up()) return rows_;
    if (!binary_.empty() && !is_short_) {
      cells_.problems().Add(
          absl::StrCat("binary tensors: ", binary_.size(),
                       " bytes follow the last one; correct binary_data_size of the inputs"));
    }
    const auto& columns = cells_.format().columns;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (!given_[i] && columns[i].is_read) {
        cells_.problems().Add(absl::StrCat("input ", Shown(columns[i].name),
                                           ": is missing; send it, with empty texts for missing "
                                           "values"));
      }
      const std::vector<Cell>& cells = cells_.cells(i);
      if (cells.size() == 1 && is_bad_[i]) {  // All rows share the bad cell.
        for (size_t row = 0; row < rows_; ++row) cells_.bad().rows.insert(row);
      }
      if (cells.size() > 1 && cells.size() != rows_) {
        cells_.problems().Add(absl::StrCat("input ", Shown(columns[i].name), ": has ", cells.size(),
                                           " rows, but another input has ", rows_,
                                           "; send one row for all, or as many"));
      }
    }
    return rows_;
  }

 private:
  void Refuse(const Tensor& tensor, const std::string& what) {
    cells_.problems().Add(absl::StrCat("input ", Shown(tensor.name), ": ", what));
  }

  // Returns the number of elements, if shape and type are those of the column.
  std::optional<size_t> CheckedRows(const Tensor& tensor, size_t column) {
    const Datatype datatype = DatatypeOf(tensor.datatype);
    const bool is_dense = cells_.format().columns[column].is_dense;
    if (datatype == Datatype::kUnknown) {
      Refuse(tensor, absl::StrCat("datatype ", Shown(tensor.datatype), " is not supported; use ",
                                  is_dense ? "FP64, FP32, INT64 or BYTES" : "BYTES or INT64"));
      return std::nullopt;
    }
    if (!is_dense && (datatype == Datatype::kFp64 || datatype == Datatype::kFp32)) {
      Refuse(tensor, absl::StrCat("datatype ", std::string(tensor.datatype),
                                  " is only for dense columns; ids need BYTES, or INT64 if the "
                                  "training data has whole numbers"));
      return std::nullopt;
    }
    const std::vector<uint64_t>& shape = tensor.shape;
    if (!tensor.has_shape || shape.empty() || shape.size() > 2 || shape[0] == 0 ||
        (shape.size() == 2 && shape[1] != 1)) {
      Refuse(tensor, absl::StrCat("shape ", ShapeText(shape),
                                  " is not supported; use [N] or [N,1] "
                                  "for N rows, [1] or [1,1] for a value that all rows share"));
      return std::nullopt;
    }
    return shape[0];
  }

  void TakeBinary(const Tensor& tensor, size_t column, size_t rows, std::string_view bytes,
                  std::vector<Cell>& cells) {
    const Datatype datatype = DatatypeOf(tensor.datatype);
    if (datatype != Datatype::kBytes) {
      const size_t width = datatype == Datatype::kFp32 ? sizeof(float) : sizeof(double);
      if (bytes.size() != rows * width) {
        return Refuse(tensor,
                      absl::StrCat("binary_data_size is ", bytes.size(), ", but shape ",
                                   ShapeText(tensor.shape), " of ", std::string(tensor.datatype),
                                   " needs ", rows * width, "; correct one of them"));
      }
      for (size_t row = 0; row < rows; ++row) {
        cells.push_back(NumberCell(datatype, bytes.substr(row * width, width), column, row));
      }
      return;
    }
    for (size_t row = 0; row < rows; ++row) {
      uint32_t length = 0;
      if (bytes.size() < kLengthBytes) return RefuseEnd(tensor, row);
      std::memcpy(&length, bytes.data(), kLengthBytes);
      bytes.remove_prefix(kLengthBytes);
      if (length > bytes.size()) return RefuseEnd(tensor, row);
      cells.push_back({.kind = Cell::Kind::kText, .text = bytes.substr(0, length)});
      bytes.remove_prefix(length);
    }
    if (!bytes.empty()) {
      Refuse(tensor, absl::StrCat("has ", bytes.size(), " bytes after its ", rows,
                                  " elements; correct the shape or binary_data_size"));
    }
  }

  void RefuseEnd(const Tensor& tensor, size_t row) {
    Refuse(tensor, absl::StrCat("row ", row,
                                " exceeds binary_data_size; an element is its length "
                                "in 4 bytes, little-endian, and its bytes"));
  }

  Cell NumberCell(Datatype datatype, std::string_view bytes, size_t column, size_t row) {
    if (datatype == Datatype::kInt64) {
      int64_t number = 0;
      std::memcpy(&number, bytes.data(), sizeof(number));
      return IntegerCell(number);
    }
    double number = 0;
    if (datatype == Datatype::kFp64) {
      std::memcpy(&number, bytes.data(), sizeof(number));
    } else {
      float single = 0;
      std::memcpy(&single, bytes.data(), sizeof(single));
      number = single;
    }
    return FloatCell(number, column, row);
  }

  Cell FloatCell(double number, size_t column, size_t row) {
    if (std::isfinite(number)) return {.kind = Cell::Kind::kNumber, .number = number};
    return BadCell(column, row,
                   absl::StrCat(std::isnan(number) ? "NaN" : "an infinity",
                                " is not a value; send null, or an empty text of BYTES, for a "
                                "missing value"));
  }

  Cell IntegerCell(int64_t number) {
    char text[24];
    const auto end = std::to_chars(text, text + sizeof(text), number).ptr;
    return {.kind = Cell::Kind::kText,
            .text = cells_.memory().Copy(std::string_view(text, static_cast<size_t>(end - text)))};
  }

  Cell BadCell(size_t column, size_t row, const std::string& what) {
    is_bad_[column] = true;
    cells_.bad().Add(row, absl::StrCat(cells_.Place(kInput, column, row), ": ", what));
    return {};
  }

  Cell CellOf(Datatype datatype, const JsonScalar& value, size_t column, size_t row) {
    if (value.kind == JsonScalar::Kind::kNull) return {};
    if (value.kind == JsonScalar::Kind::kBool) {
      return BadCell(column, row,
                     absl::StrCat(std::string(value.text),
                                  " is a boolean; send the text that the "
                                  "training data has for it"));
    }
    if (datatype == Datatype::kBytes) {
      if (value.kind == JsonScalar::Kind::kText) {
        return {.kind = Cell::Kind::kText, .text = value.text};
      }
      return BadCell(column, row,
                     absl::StrCat(std::string(value.text),
                                  " is a number, but the datatype is "
                                  "BYTES; send a text, or another datatype"));
    }
    if (value.kind == JsonScalar::Kind::kText) {
      return BadCell(column, row,
                     absl::StrCat(Shown(value.text),
                                  " is a text, but the datatype is "
                                  "one of numbers; send a number, or BYTES"));
    }
    if (datatype == Datatype::kInt64) {
      int64_t number = 0;
      if (absl::SimpleAtoi(std::string(value.text), &number)) return IntegerCell(number);
      return BadCell(column, row,
                     absl::StrCat(Shown(value.text),
                                  " is not an INT64; send a whole "
                                  "number, or BYTES"));
    }
    double number = 0;
    const auto end = value.text.data() + value.text.size();
    const auto parsed = absl::from_chars(value.text.data(), end, number);
    if (parsed.ec == std::errc::result_out_of_range && std::abs(number) > 1) {
      number = std::copysign(std::numeric_limits<double>::infinity(), number);
    }
    if (datatype == Datatype::kFp32) number = static_cast<float>(number);
    return FloatCell(number, column, row);
  }

  CellCollector& cells_;
  std::string_view binary_;  // The bytes that are not read yet.
  bool is_short_ = false;
  std::vector<bool> given_;   // Whether the request has each column.
  std::vector<bool> is_bad_;  // Whether each column has a bad cell.
  size_t rows_ = 0;
};

// Reads the JSON part of a request.
class V2Events final : public JsonEvents {
 public:
  V2Events(CellCollector& cells, TensorReader& tensors) : cells_(cells), tensors_(tensors) {}

  bool BeginObject() override { return Begin(/*is_object=*/true); }
  bool EndObject() override { return End(); }
  bool BeginArray() override { return Begin(/*is_object=*/false); }
  bool EndArray() override { return End(); }

  bool Key(std::string_view key) override {
    key_.assign(key);
    return true;
  }

  std::string Where() const override {
    if (place_ != Place::kData) return "";
    return absl::StrCat(kInput, " ", Shown(tensor_.name), ", row ", data_.size());
  }

  bool Scalar(const JsonScalar& given) override {
    const JsonScalar value = cells_.Kept(given);
    switch (place_) {
      case Place::kStart:
        return RefuseStart();
      case Place::kRequest:
        if (key_ == "id") {
          id_ = value.text;
        } else if (IsOneOf({"inputs", "outputs", "parameters"})) {
          Refuse(absl::StrCat(key_, ": is a value; see the protocol"));
        }
        break;
      case Place::kParameters:
        if (key_ == "timeout") {
          ReadTimeout(value);
        } else if (key_ == "binary_data_output") {
          binary_output_ = value.kind == JsonScalar::Kind::kBool && value.text == "true";
        }
        break;
      case Place::kInputs:
        Refuse("inputs: has a value that is no object; send an object for each tensor");
        break;
      case Place::kInput:
        if (key_ == "name") tensor_.name = TextOf(value);
        if (key_ == "datatype") tensor_.datatype = TextOf(value);
        if (IsOneOf({"shape", "data"})) {
          Refuse(absl::StrCat("input ", Shown(tensor_.name), ": ", key_,
                              " is a value; send an array"));
        }
        break;
      case Place::kInputParameters:
        if (key_ == "binary_data_size") tensor_.binary_bytes = CountOf(value, "binary_data_size");
        break;
      case Place::kShape:
        if (tensor_.shape.size() == kMaxDimensions) break;
        tensor_.shape.push_back(CountOf(value, "shape").value_or(0));
        break;
      case Place::kData:
        if (data_.size() == cells_.max_rows()) {
          cells_.RefuseRows(data_.size() + 1);
          return false;
        }
        data_.push_back(value);
        break;
      case Place::kOutputs:
        Refuse("outputs: has a value that is no object; send {\"name\": ...} for each");
        break;
      case Place::kOutput:
        if (key_ == "name") output_name_ = TextOf(value);
        break;
      case Place::kOutputParameters:
        if (key_ == "binary_data") output_binary_ = value.text == "true";
        if (key_ == "classification") {
          Refuse("outputs: classification is not supported; read the probabilities");
        }
        break;
      case Place::kSkipped:
        break;
    }
    return !cells_.gave_up();
  }

  // Makes the checks that need the whole document, and sets id, timeout and outputs.
  void Finish() {
    if (cells_.gave_up() || !cells_.problems().empty()) return;
    if (!has_inputs_) Refuse("inputs: is missing; send a tensor for each column");
    const auto& labels = cells_.format().labels;
    const bool takes_all = outputs_.empty();
    for (size_t i = 0; i < labels.size() && takes_all; ++i) outputs_.push_back({i, false});
    for (auto& output : outputs_) output.is_binary |= binary_output_;
  }

  void MoveTo(PredictRequest& request) {
    request.id = std::move(id_);
    request.timeout = timeout_;
    request.outputs = std::move(outputs_);
  }

 private:
  enum class Place {
    kStart,
    kRequest,
    kParameters,
    kInputs,
    kInput,
    kInputParameters,
    kShape,
    kData,  // The data array, or an array in it.
    kOutputs,
    kOutput,
    kOutputParameters,
    kSkipped,  // A value that is not used.
  };
  static constexpr size_t kMaxDimensions = 8;

  // Returns the place of an object or array that begins here.
  Place PlaceOf(bool is_object) {
    switch (place_) {
      case Place::kStart:
        if (is_object) return Place::kRequest;
        break;
      case Place::kRequest:
        if (key_ == "inputs" && !is_object) return Place::kInputs;
        if (key_ == "outputs" && !is_object) return Place::kOutputs;
        if (key_ == "parameters" && is_object) return Place::kParameters;
        if (IsOneOf({"inputs", "outputs", "parameters"})) {
          Refuse(absl::StrCat(key_, ": is an ", is_object ? "object" : "array", ", not an ",
                              is_object ? "array" : "object"));
        }
        break;
      case Place::kInputs:
        if (is_object) return Place::kInput;
        Refuse("inputs: has an array in it; send an object for each tensor");
        break;
      case Place::kInput:
        if (key_ == "parameters" && is_object) return Place::kInputParameters;
        if (key_ == "shape" && !is_object) return Place::kShape;
        if (key_ == "data" && !is_object) return Place::kData;
        break;
      case Place::kOutputs:
        if (is_object) return Place::kOutput;
        break;
      case Place::kOutput:
        if (key_ == "parameters" && is_object) return Place::kOutputParameters;
        break;
      case Place::kData:
        if (!is_object) return Place::kData;
        Refuse(absl::StrCat("input ", Shown(tensor_.name),
                            ": data has an object in it; send texts or numbers"));
        break;
      case Place::kParameters:
      case Place::kInputParameters:
      case Place::kShape:
      case Place::kOutputParameters:
      case Place::kSkipped:
        break;
    }
    return Place::kSkipped;
  }

  bool Begin(bool is_object) {
    if (place_ == Place::kStart && !is_object) return RefuseStart();
    const Place place = PlaceOf(is_object);
    switch (place) {
      case Place::kInputs:
        has_inputs_ = true;
        break;
      case Place::kInput:
        tensor_ = {};
        data_.clear();
        break;
      case Place::kShape:
        tensor_.has_shape = true;
        tensor_.shape.clear();
        break;
      case Place::kData:
        if (place_ != Place::kData) data_.clear();
        tensor_.has_data = true;
        break;
      case Place::kOutput:
        output_name_ = {};
        output_binary_ = false;
        break;
      default:
        break;
    }
    above_.push_back(place_);
    place_ = place;
    return !cells_.gave_up();
  }

  bool End() {
    if (place_ == Place::kInput) tensors_.Take(tensor_, data_);
    if (place_ == Place::kOutput) TakeOutput();
    place_ = above_.back();
    above_.pop_back();
    return !cells_.gave_up();
  }

  void TakeOutput() {
    const auto& labels = cells_.format().labels;
    const auto found = std::ranges::find(labels, output_name_);
    if (found == labels.end()) {
      return Refuse(absl::StrCat("output ", Shown(output_name_), ": unknown label; use one of ",
                                 absl::StrJoin(labels, ", ")));
    }
    const auto label = static_cast<size_t>(found - labels.begin());
    if (std::ranges::any_of(outputs_, [&](const auto& one) { return one.label == label; })) {
      return Refuse(absl::StrCat("output ", Shown(output_name_), ": is given twice; remove one"));
    }
    outputs_.push_back({label, output_binary_});
  }

  void ReadTimeout(const JsonScalar& value) {
    constexpr uint64_t kLongest = uint64_t{1} << 40;
    if (const auto count = CountOf(value, "timeout"); count && *count > 0) {
      timeout_ = std::chrono::microseconds(std::min(*count, kLongest));
    }
  }

  bool IsOneOf(std::initializer_list<const char*> keys) const {
    return std::ranges::find(keys, key_) != keys.end();
  }

  std::string_view TextOf(const JsonScalar& value) {
    if (value.kind == JsonScalar::Kind::kText) return value.text;
    Refuse(absl::StrCat(key_, ": is not a text"));
    return "";
  }

  std::optional<uint64_t> CountOf(const JsonScalar& value, const char* what) {
    uint64_t count = 0;
    if (value.kind == JsonScalar::Kind::kNumber &&
        absl::SimpleAtoi(std::string(value.text), &count)) {
      return count;
    }
    Refuse(absl::StrCat(what, ": ", Shown(value.text), " is not a whole number from 0"));
    return std::nullopt;
  }

  void Refuse(std::string what) { cells_.problems().Add(std::move(what)); }
  bool RefuseStart() {
    Refuse("the body is no JSON object; send {\"inputs\": [...]}");
    return false;
  }

  CellCollector& cells_;
  TensorReader& tensors_;
  Place place_ = Place::kStart;
  std::vector<Place> above_;
  std::string key_;
  bool has_inputs_ = false;
  bool binary_output_ = false;
  std::string id_;
  std::optional<std::chrono::microseconds> timeout_;
  Tensor tensor_;
  std::vector<JsonScalar> data_;
  std::string_view output_name_;
  bool output_binary_ = false;
  std::vector<PredictRequest::Output> outputs_;
};

void AppendTensorHead(const std::string& name, size_t rows, std::string& out) {
  out += "{\"name\":";
  AppendJsonText(name, out);
  absl::StrAppend(&out, ",\"datatype\":\"FP32\",\"shape\":[", rows, ",1],");
}

}  // namespace

StatusOr<PredictRequest> DecodeV2(const RowFormat& format, const RequestLimits& limits,
                                  std::optional<size_t> json_bytes,
                                  std::shared_ptr<RequestMemory> memory) {
  const std::string_view body = memory->body();
  if (json_bytes.value_or(0) > body.size()) {
    return absl::InvalidArgumentError(absl::StrCat("Inference-Header-Content-Length is ",
                                                   *json_bytes, ", but the body has ", body.size(),
                                                   " bytes; correct the header"));
  }
  const std::string_view json = body.substr(0, json_bytes.value_or(body.size()));
  CellCollector cells(format, limits, memory);
  TensorReader tensors(cells, body.substr(json.size()));
  V2Events events(cells, tensors);
  SIMURGH_RETURN_IF_ERROR(CellCollector::Parse(json, events));
  events.Finish();
  // Without inputs, all cells are missing.
  const size_t rows = cells.problems().empty() ? tensors.Finish() : 0;
  SIMURGH_ASSIGN_OR_RETURN(PredictRequest request, cells.Finish(rows));
  events.MoveTo(request);
  return request;
}

EncodedBody EncodeV2(const RowFormat& format, const ModelName& model, const PredictRequest& request,
                     const ScoredRows& rows) {
  const size_t labels = format.labels.size();
  const size_t count = request.rows.rows;
  EncodedBody body;
  std::string& out = body.bytes;
  std::string binary;
  out = "{";
  if (!request.id.empty()) {
    out += "\"id\":";
    AppendJsonText(request.id, out);
    out += ",";
  }
  out += "\"model_name\":";
  AppendJsonText(model.name, out);
  absl::StrAppend(&out, ",\"model_version\":\"", model.step, "\",\"outputs\":[");
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const auto& [label, is_binary] = request.outputs[i];
    if (i > 0) out.push_back(',');
    AppendTensorHead(format.labels[label], count, out);
    if (is_binary) {
      absl::StrAppend(&out, "\"parameters\":{\"binary_data_size\":", count * sizeof(float), "}}");
    } else {
      out += "\"data\":[";
    }
    for (size_t row = 0; row < count; ++row) {
      const float value = rows.probabilities[row * labels + label];
      if (is_binary) {
        binary.append(reinterpret_cast<const char*>(&value), sizeof(value));
      } else {
        if (row > 0) out.push_back(',');
        AppendJsonNumber(value, out);
      }
    }
    if (!is_binary) out += "]}";
  }
  out += "]}";
  if (!binary.empty()) {
    body.content_type = "application/octet-stream";
    body.json_bytes = out.size();
    out += binary;
  }
  return body;
}

namespace {

using Json = nlohmann::ordered_json;

std::string TextOf(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// Returns a list with describe(column) for each column that the model reads.
template <typename Describe>
Json ColumnsJson(const RowFormat& format, const Describe& describe) {
  Json columns = Json::array();
  for (const RowFormat::Column& column : format.columns) {
    if (column.is_read) columns.push_back(describe(column));
  }
  return columns;
}

}  // namespace

std::string ServerMetadata() {
  return TextOf({{"name", "simurgh"},
                 {"version", Version()},
                 {"extensions", {"binary_tensor_data", "model_configuration"}}});
}

std::string ModelMetadata(const RowFormat& format, const std::string& name,
                          const std::vector<uint64_t>& steps) {
  const auto tensor = [](const std::string& of, const char* datatype) -> Json {
    return {{"name", of}, {"datatype", datatype}, {"shape", {-1, 1}}};
  };
  Json versions = Json::array();
  for (const uint64_t step : steps) versions.push_back(absl::StrCat(step));
  Json outputs = Json::array();
  for (const std::string& label : format.labels) outputs.push_back(tensor(label, "FP32"));
  return TextOf({{"name", name},
                 {"versions", versions},
                 {"platform", "simurgh"},
                 {"inputs", ColumnsJson(format,
                                        [&](const auto& column) {
                                          return tensor(column.name,
                                                        column.is_dense ? "FP64" : "BYTES");
                                        })},
                 {"outputs", outputs}});
}

std::string ModelConfigJson(const RowFormat& format, const std::string& name, size_t max_rows) {
  const auto tensor = [](const std::string& of, const char* type) -> Json {
    return {{"name", of}, {"data_type", type}, {"dims", {1}}};
  };
  Json outputs = Json::array();
  for (const std::string& label : format.labels) outputs.push_back(tensor(label, "TYPE_FP32"));
  return TextOf({{"name", name},
                 {"platform", "simurgh"},
                 {"backend", "simurgh"},
                 {"max_batch_size", max_rows},
                 {"input", ColumnsJson(format,
                                       [&](const auto& column) {
                                         return tensor(column.name, column.is_dense
                                                                        ? "TYPE_FP64"
                                                                        : "TYPE_STRING");
                                       })},
                 {"output", outputs}});
}

}  // namespace simurgh
