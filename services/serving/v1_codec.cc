#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "services/serving/predict_request.h"

namespace simurgh {
namespace {

constexpr char kColumn[] = "column";

class V1Events final : public JsonEvents {
 public:
  V1Events(CellCollector& cells, OtherKeys* others, bool* has_instances)
      : cells_(cells),
        others_(others),
        has_instances_(*has_instances),
        last_set_(cells.format().columns.size(), 0) {}

  size_t rows() const { return rows_; }
  bool is_columnar() const { return is_columnar_; }
  bool is_common(size_t column) const { return last_set_[column] == kInCommon; }

  // Makes the checks that need all columns of `inputs`.
  void FinishInputs() {
    for (size_t i = 0; i < last_set_.size(); ++i) {
      const std::vector<Cell>& cells = cells_.cells(i);
      if (last_set_[i] > 1 && last_set_[i] != rows_) {
        Refuse(absl::StrCat(InputName(i), ": has ", last_set_[i],
                            " values, but another column has ", rows_,
                            "; send one value for all rows, or one for each"));
      } else if (cells.size() == 1 && !cells_.bad().rows.empty() && bad_input_[i]) {
        for (size_t row = 0; row < rows_; ++row) cells_.bad().rows.insert(row);
      }
    }
  }

  bool BeginObject() override {
    switch (place_) {
      case Place::kStart:
        return Enter(Place::kRequest);
      case Place::kRequest:
        if (key_ == Key1::kCommon) return Enter(Place::kCommon);
        if (key_ == Key1::kInputs) {
          is_columnar_ = true;
          bad_input_.resize(last_set_.size());
          return Enter(Place::kInputs);
        }
        if (key_ == Key1::kInstances) Refuse("instances: is an object; send an array of objects");
        if (key_ == Key1::kOther) return Enter(Place::kOther) && others_->BeginObject();
        return Skip();
      case Place::kInstances:
        if (rows_ == cells_.max_rows()) {
          cells_.RefuseRows(rows_ + 1);
          return false;
        }
        ++rows_;
        return Enter(Place::kInstance);
      case Place::kInputs:
        if (column_) Refuse(absl::StrCat(InputName(*column_), ": is an object; send an array"));
        return Skip();
      case Place::kCommon:
      case Place::kInstance:
      case Place::kInput:
        BadCell("is an object; send a text, a number or null");
        return Skip();
      case Place::kList:
        list_is_bad_ = true;
        return Skip();
      case Place::kOther:
        return Enter(Place::kOther) && others_->BeginObject();
      case Place::kSkipped:
        return Skip();
    }
    return false;
  }

  bool EndObject() override {
    const bool is_other = place_ == Place::kOther;
    return Leave() && (!is_other || others_->EndObject());
  }

  std::string Where() const override {
    const bool in_column = place_ != Place::kStart && place_ != Place::kRequest &&
                           place_ != Place::kInstances && place_ != Place::kOther &&
                           place_ != Place::kSkipped;
    if (!column_ || !in_column) return "";
    if (in_input()) return cells_.Place(kColumn, *column_, last_set_[*column_]);
    if (in_common()) {
      return absl::StrCat("common, ", kColumn, " ", Shown(cells_.format().columns[*column_].name));
    }
    return cells_.Place(kColumn, *column_, rows_ - 1);
  }

  bool BeginArray() override {
    switch (place_) {
      case Place::kStart:
        return RefuseStart();
      case Place::kRequest:
        if (key_ == Key1::kInstances) {
          has_instances_ = true;
          return Enter(Place::kInstances);
        }
        if (key_ == Key1::kCommon) Refuse("common: is an array; send an object");
        if (key_ == Key1::kInputs) {
          Refuse("inputs: is an array; send {\"column\": [value, ...], ...}");
        }
        if (key_ == Key1::kOther) return Enter(Place::kOther) && others_->BeginArray();
        return Skip();
      case Place::kInstances:
        return RefuseInstance();
      case Place::kInputs:
        return column_ && BeginInput() ? Enter(Place::kInput) : Skip();
      case Place::kInput:
        if (!is_list()) return BeginInner();
        [[fallthrough]];
      case Place::kCommon:
      case Place::kInstance:
        list_.clear();
        list_is_bad_ = false;
        return Enter(Place::kList);
      case Place::kList:
        list_is_bad_ = true;
        return Skip();
      case Place::kOther:
        return Enter(Place::kOther) && others_->BeginArray();
      case Place::kSkipped:
        return Skip();
    }
    return false;
  }

  bool EndArray() override {
    if (place_ == Place::kOther) return Leave() && others_->EndArray();
    if (place_ != Place::kList) {
      const bool is_inner = place_ == Place::kInput && above_.back() == Place::kInput;
      if (is_inner && last_set_[*column_] != inner_begin_ + 1) RefuseShape();
      return Leave();
    }
    Leave();
    if (list_is_bad_) {
      BadCell("has a value that is no id; send texts or numbers in the array");
    } else if (column_ && !is_list()) {
      BadCell("is an array, but the column has one value in a row; send a text or a number");
    } else if (list_.empty()) {
      Set({});
    } else {
      Set({.kind = Cell::Kind::kList, .list = cells_.memory().Copy(list_)});
    }
    return !cells_.gave_up();
  }

  bool Key(std::string_view key) override {
    if (place_ == Place::kRequest) {
      const Key1 found = key == "instances"                          ? Key1::kInstances
                         : key == "inputs"                           ? Key1::kInputs
                         : key == "common"                           ? Key1::kCommon
                         : key == "signature_name"                   ? Key1::kIgnored
                         : others_ != nullptr && others_->Takes(key) ? Key1::kOther
                                                                     : Key1::kUnknown;
      if (found == Key1::kUnknown) {
        Refuse(absl::StrCat(Shown(key), ": unknown key; use instances and common, or inputs",
                            others_ == nullptr ? "" : "; or ",
                            others_ == nullptr ? "" : others_->names()));
      } else if (found != Key1::kIgnored && found != Key1::kOther) {
        if (!seen_.insert(found).second) Refuse(absl::StrCat(std::string(key), ": is given twice"));
        if (seen_.contains(Key1::kInputs) && seen_.size() > 1) {
          Refuse("inputs: is given besides instances or common; send one of them");
        }
      }
      key_ = found;
    } else if (place_ == Place::kInstance || place_ == Place::kCommon || place_ == Place::kInputs) {
      column_ = cells_.Find(key, kColumn);
    } else if (place_ == Place::kOther) {
      return others_->Key(key);
    }
    return !cells_.gave_up();
  }

  bool Scalar(const JsonScalar& given) override {
    const JsonScalar value = cells_.Kept(given);
    switch (place_) {
      case Place::kStart:
        return RefuseStart();
      case Place::kRequest:
        if (key_ == Key1::kInstances) Refuse("instances: is a value; send an array of objects");
        if (key_ == Key1::kCommon) Refuse("common: is a value; send an object");
        if (key_ == Key1::kInputs) Refuse("inputs: is a value; send an object");
        if (key_ == Key1::kOther) return others_->Scalar(given);
        break;
      case Place::kOther:
        return others_->Scalar(given);
      case Place::kInstances:
        return RefuseInstance();
      case Place::kInputs:
        if (column_ && BeginInput()) SetScalar(value);
        break;
      case Place::kCommon:
      case Place::kInstance:
      case Place::kInput:
        SetScalar(value);
        break;
      case Place::kList:
        if (value.kind != JsonScalar::Kind::kText && value.kind != JsonScalar::Kind::kNumber) {
          list_is_bad_ = true;
        } else if (keeps_list()) {
          if (!cells_.CountListId()) return false;
          list_.push_back(value.text);
        }
        break;
      case Place::kSkipped:
        break;
    }
    return !cells_.gave_up();
  }

 private:
  enum class Place {
    kStart,
    kRequest,
    kInstances,
    kInstance,
    kCommon,
    kInputs,
    kInput,    // The values of a column.
    kList,     // A value of an instance, of common or of an input.
    kOther,    // A value for others_.
    kSkipped,  // A value that is not used.
  };
  enum class Key1 { kInstances, kCommon, kInputs, kOther, kIgnored, kUnknown };

  bool Enter(Place place) {
    above_.push_back(place_);
    place_ = place;
    return !cells_.gave_up();
  }
  bool Skip() { return Enter(Place::kSkipped); }
  bool Leave() {
    place_ = above_.back();
    above_.pop_back();
    return !cells_.gave_up();
  }

  void Refuse(std::string what) { cells_.problems().Add(std::move(what)); }
  bool RefuseStart() {
    Refuse("the body is no JSON object; send {\"instances\": [{\"column\": value, ...}, ...]}");
    return false;
  }
  bool RefuseInstance() {
    Refuse(absl::StrCat("instances: row ", rows_,
                        " is no object; send {\"column\": value, ...} for each row"));
    return false;
  }

  std::string InputName(size_t column) const {
    return absl::StrCat("inputs: ", kColumn, " ", Shown(cells_.format().columns[column].name));
  }
  // Begins the values of a column. Returns false if it was given before.
  bool BeginInput() {
    if (last_set_[*column_] == 0) return true;
    Refuse(absl::StrCat(InputName(*column_), ": is given twice; remove one"));
    return false;
  }
  // Begins an array in the values of a column, which has one value: of shape [N,1].
  bool BeginInner() {
    if (above_.back() == Place::kInput) {
      RefuseShape();
      return Skip();
    }
    inner_begin_ = last_set_[*column_];
    return Enter(Place::kInput);
  }
  void RefuseShape() {
    Refuse(absl::StrCat(InputName(*column_),
                        ": has an array that is not one value; the column has one in a row"));
  }
  bool is_list() const { return column_ && cells_.format().columns[*column_].is_list; }
  bool in_input() const {
    return place_ == Place::kInput || place_ == Place::kInputs ||
           (place_ == Place::kList && above_.back() == Place::kInput);
  }

  // Returns whether the ids of an array are used.
  bool keeps_list() const { return is_list() && cells_.format().columns[*column_].is_read; }

  bool in_common() const {
    return place_ == Place::kCommon || (place_ == Place::kList && above_.back() == Place::kCommon);
  }

  void SetScalar(const JsonScalar& value) {
    switch (value.kind) {
      case JsonScalar::Kind::kNull:
        return Set({});
      case JsonScalar::Kind::kBool:
        if (column_ && cells_.format().is_json) {  // Training reads JSON files in the same way.
          const bool is_true = value.text == "true";
          return Set({.kind = Cell::Kind::kText,
                      .text = cells_.format().columns[*column_].is_dense ? (is_true ? "1" : "0")
                                                                         : value.text});
        }
        return BadCell(absl::StrCat(std::string(value.text),
                                    " is a boolean; send the text or the number that the "
                                    "training data has for it"));
      case JsonScalar::Kind::kNumber:
        // The column's texts can have another decimal sign than the numbers of JSON.
        if (column_ && cells_.format().columns[*column_].is_converted) {
          double number = 0;
          std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
          return Set({.kind = Cell::Kind::kNumber, .number = number});
        }
        [[fallthrough]];
      case JsonScalar::Kind::kText:
        return Set({.kind = Cell::Kind::kText, .text = value.text});
    }
  }

  // Returns whether the column of the last key can be set: it must not have been set in this row.
  bool Claim() {
    if (!column_) return false;
    if (in_input()) {
      const size_t row = ++last_set_[*column_];
      if (row > cells_.max_rows()) cells_.RefuseRows(row);
      rows_ = std::max(rows_, row);
      return row <= cells_.max_rows();
    }
    // An instance's mark is its number from 1.
    const size_t mark = in_common() ? kInCommon : rows_;
    size_t& last = last_set_[*column_];
    if (last == kInCommon || last == mark || (mark == kInCommon && last != 0)) {
      Refuse(absl::StrCat(cells_.Place(kColumn, *column_, rows_ == 0 ? 0 : rows_ - 1),
                          last == mark ? ": is given twice; remove one"
                                       : ": is in common and in an instance; remove one"));
      return false;
    }
    last = mark;
    return true;
  }

  void Set(const Cell& cell) {
    if (!Claim() || !cells_.format().columns[*column_].is_read) return;
    std::vector<Cell>& cells = cells_.cells(*column_);
    if (!in_common()) cells.resize(Row());
    cells.push_back(cell);
  }

  // Returns the row of the last cell.
  size_t Row() const {
    if (in_input()) return last_set_[*column_] - 1;
    return rows_ == 0 ? 0 : rows_ - 1;
  }

  void BadCell(const std::string& what) {
    if (!Claim() || !cells_.format().columns[*column_].is_read) return;
    if (in_common()) {
      return Refuse(absl::StrCat("common: ", kColumn, " ",
                                 Shown(cells_.format().columns[*column_].name), ": ", what));
    }
    cells_.bad().Add(Row(), absl::StrCat(cells_.Place(kColumn, *column_, Row()), ": ", what));
    if (!in_input()) return;
    bad_input_[*column_] = true;
    cells_.cells(*column_).resize(Row() + 1);
  }

  static constexpr size_t kInCommon = SIZE_MAX;

  CellCollector& cells_;
  OtherKeys* const others_;
  bool& has_instances_;
  Place place_ = Place::kStart;
  std::vector<Place> above_;
  Key1 key_ = Key1::kUnknown;
  std::set<Key1> seen_;
  bool is_columnar_ = false;
  std::vector<bool> bad_input_;  // Whether each column of `inputs` has a bad cell.
  size_t inner_begin_ = 0;       // Row of the last array in the values of an input.
  size_t rows_ = 0;
  std::optional<size_t> column_;
  std::vector<size_t> last_set_;  // Last row per column, from 1; kInCommon: in common; 0: none.
  std::vector<std::string_view> list_;
  bool list_is_bad_ = false;
};

}  // namespace

StatusOr<PredictRequest> DecodeV1(const RowFormat& format, const RequestLimits& limits,
                                  std::shared_ptr<RequestMemory> memory, OtherKeys* others) {
  CellCollector cells(format, limits, memory);
  bool has_instances = false;
  V1Events events(cells, others, &has_instances);
  SIMURGH_RETURN_IF_ERROR(CellCollector::Parse(memory->body(), events));
  if (!cells.gave_up() && cells.problems().empty() && events.rows() == 0) {
    cells.problems().Add(
        events.is_columnar() ? "inputs: has no values; send an array for each column"
        : has_instances      ? "instances: has no rows; send one object for each row"
                             : "instances: is missing; send an array of objects, one for each row");
  }
  if (events.is_columnar()) {
    if (!cells.gave_up()) events.FinishInputs();
    SIMURGH_ASSIGN_OR_RETURN(PredictRequest request, cells.Finish(events.rows()));
    request.is_columnar = true;
    return request;
  }
  // A column that is in no instance keeps its one cell of `common`, or none.
  for (size_t i = 0; i < format.columns.size(); ++i) {
    std::vector<Cell>& column = cells.cells(i);
    if (!column.empty() && !events.is_common(i)) column.resize(events.rows());
  }
  return cells.Finish(events.rows());
}

namespace {

// Returns the predictions of each label: a list, or an object of lists.
std::string ColumnsJson(const RowFormat& format, const ScoredRows& rows) {
  const size_t labels = format.labels.size();
  std::string out = labels > 1 ? "{" : "";
  for (size_t label = 0; label < labels; ++label) {
    if (label > 0) out.push_back(',');
    if (labels > 1) AppendJsonText(format.labels[label], out);
    out += labels > 1 ? ":[" : "[";
    for (size_t row = 0; row < rows.probabilities.size() / labels; ++row) {
      if (row > 0) out.push_back(',');
      AppendJsonNumber(rows.probabilities[row * labels + label], out);
    }
    out.push_back(']');
  }
  return labels > 1 ? out + "}" : out;
}

}  // namespace

EncodedBody EncodeV1(const RowFormat& format, const ModelName& model, bool is_columnar,
                     const ScoredRows& rows) {
  const size_t labels = format.labels.size();
  EncodedBody body;
  std::string& out = body.bytes;
  if (is_columnar) {
    absl::StrAppend(&out, "{\"outputs\":", ColumnsJson(format, rows), ",\"model_version\":\"",
                    model.step, "\"}");
    return body;
  }
  out = "{\"predictions\":[";
  for (size_t row = 0; row < rows.probabilities.size() / labels; ++row) {
    if (row > 0) out.push_back(',');
    if (labels > 1) out.push_back('[');
    for (size_t label = 0; label < labels; ++label) {
      if (label > 0) out.push_back(',');
      AppendJsonNumber(rows.probabilities[row * labels + label], out);
    }
    if (labels > 1) out.push_back(']');
  }
  absl::StrAppend(&out, "],\"model_version\":\"", model.step, "\"}");
  return body;
}

}  // namespace simurgh
