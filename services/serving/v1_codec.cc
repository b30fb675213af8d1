#include <utility>

#include "absl/strings/str_cat.h"

#include "services/serving/predict_request.h"

namespace simurgh {
namespace {

constexpr char kColumn[] = "column";

class V1Events final : public JsonEvents {
 public:
  V1Events(CellCollector& cells, bool* has_instances)
      : cells_(cells),
        has_instances_(*has_instances),
        last_set_(cells.format().columns.size(), 0) {}

  size_t rows() const { return rows_; }
  bool is_common(size_t column) const { return last_set_[column] == kInCommon; }

  bool BeginObject() override {
    switch (place_) {
      case Place::kStart:
        return Enter(Place::kRequest);
      case Place::kRequest:
        if (key_ == Key1::kCommon) return Enter(Place::kCommon);
        if (key_ == Key1::kInstances) Refuse("instances: is an object; send an array of objects");
        return Skip();
      case Place::kInstances:
        if (rows_ == cells_.max_rows()) {
          cells_.RefuseRows(rows_ + 1);
          return false;
        }
        ++rows_;
        return Enter(Place::kInstance);
      case Place::kCommon:
      case Place::kInstance:
        BadCell("is an object; send a text, a number or null");
        return Skip();
      case Place::kList:
        list_is_bad_ = true;
        return Skip();
      case Place::kSkipped:
        return Skip();
    }
    return false;
  }

  bool EndObject() override { return Leave(); }

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
        return Skip();
      case Place::kInstances:
        return RefuseInstance();
      case Place::kCommon:
      case Place::kInstance:
        list_.clear();
        list_is_bad_ = false;
        return Enter(Place::kList);
      case Place::kList:
        list_is_bad_ = true;
        return Skip();
      case Place::kSkipped:
        return Skip();
    }
    return false;
  }

  bool EndArray() override {
    if (place_ != Place::kList) return Leave();
    Leave();
    if (list_is_bad_) {
      BadCell("has a value that is no id; send texts or numbers in the array");
    } else if (column_ && !cells_.format().columns[*column_].is_list) {
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
      const Key1 found = key == "instances"        ? Key1::kInstances
                         : key == "common"         ? Key1::kCommon
                         : key == "signature_name" ? Key1::kIgnored
                                                   : Key1::kUnknown;
      if (found == Key1::kUnknown) {
        Refuse(absl::StrCat(Shown(key), ": unknown key; use instances and common"));
      } else if (found != Key1::kIgnored) {
        if (seen_[found == Key1::kCommon])
          Refuse(absl::StrCat(std::string(key), ": is given twice"));
        seen_[found == Key1::kCommon] = true;
      }
      key_ = found;
    } else if (place_ == Place::kInstance || place_ == Place::kCommon) {
      column_ = cells_.Find(key, kColumn);
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
        break;
      case Place::kInstances:
        return RefuseInstance();
      case Place::kCommon:
      case Place::kInstance:
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
    kList,     // Of an instance or of common.
    kSkipped,  // A value that is not used.
  };
  enum class Key1 { kInstances, kCommon, kIgnored, kUnknown };

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

  // Whether the ids of an array are used.
  bool keeps_list() const {
    if (!column_) return false;
    const RowFormat::Column& column = cells_.format().columns[*column_];
    return column.is_list && column.is_read;
  }

  bool in_common() const {
    return place_ == Place::kCommon || (place_ == Place::kList && above_.back() == Place::kCommon);
  }

  void SetScalar(const JsonScalar& value) {
    switch (value.kind) {
      case JsonScalar::Kind::kNull:
        return Set({});
      case JsonScalar::Kind::kBool:
        return BadCell(absl::StrCat(std::string(value.text),
                                    " is a boolean; send the text or the number that the "
                                    "training data has for it"));
      case JsonScalar::Kind::kNumber:
      case JsonScalar::Kind::kText:
        return Set({.kind = Cell::Kind::kText, .text = value.text});
    }
  }

  // Whether the column of the last key can be set, which must not have been set in this row.
  bool Claim() {
    if (!column_) return false;
    // Of an instance: its number from 1.
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
    if (!in_common()) cells.resize(rows_ - 1);
    cells.push_back(cell);
  }

  void BadCell(const std::string& what) {
    if (!Claim()) return;
    if (in_common()) {
      return Refuse(absl::StrCat("common: ", kColumn, " ",
                                 Shown(cells_.format().columns[*column_].name), ": ", what));
    }
    cells_.bad().Add(rows_ - 1,
                     absl::StrCat(cells_.Place(kColumn, *column_, rows_ - 1), ": ", what));
  }

  static constexpr size_t kInCommon = SIZE_MAX;

  CellCollector& cells_;
  bool& has_instances_;
  Place place_ = Place::kStart;
  std::vector<Place> above_;
  Key1 key_ = Key1::kUnknown;
  bool seen_[2] = {false, false};
  size_t rows_ = 0;
  std::optional<size_t> column_;
  std::vector<size_t> last_set_;  // By column: the row from 1, or kInCommon; 0: never.
  std::vector<std::string_view> list_;
  bool list_is_bad_ = false;
};

}  // namespace

StatusOr<PredictRequest> DecodeV1(const RowFormat& format, const RequestLimits& limits,
                                  std::shared_ptr<RequestMemory> memory) {
  CellCollector cells(format, limits, memory);
  bool has_instances = false;
  V1Events events(cells, &has_instances);
  SIMURGH_RETURN_IF_ERROR(CellCollector::Parse(memory->body(), events));
  if (!cells.gave_up() && cells.problems().empty() && events.rows() == 0) {
    cells.problems().Add(has_instances
                             ? "instances: has no rows; send one object for each row"
                             : "instances: is missing; send an array of objects, one for each row");
  }
  // A column that is in no instance keeps its one cell of `common`, or none.
  for (size_t i = 0; i < format.columns.size(); ++i) {
    std::vector<Cell>& column = cells.cells(i);
    if (!column.empty() && !events.is_common(i)) column.resize(events.rows());
  }
  return cells.Finish(events.rows());
}

EncodedBody EncodeV1(const RowFormat& format, const ModelName& model, const ScoredRows& rows) {
  const size_t labels = format.labels.size();
  EncodedBody body;
  std::string& out = body.bytes;
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
