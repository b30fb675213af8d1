#include "simurgh/data/data_position.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "simurgh/base/check.h"

namespace simurgh {
namespace {

// Reads "name=NUMBER".
bool ReadNumber(const std::string& field, std::string_view name, uint32_t& number) {
  return field.starts_with(name) && absl::SimpleAtoi(field.substr(name.size()), &number);
}

// Reads "next=EPOCH:ROW,EPOCH:ROW".
bool ReadRows(const std::string& field, std::vector<RowNumber>& rows) {
  constexpr std::string_view kName = "next=";
  if (!field.starts_with(kName)) return false;
  const std::vector<std::string> texts = absl::StrSplit(field.substr(kName.size()), ',');
  for (const std::string& text : texts) {
    const std::vector<std::string> numbers = absl::StrSplit(text, ':');
    RowNumber row;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &row.epoch) ||
        !absl::SimpleAtoi(numbers[1], &row.row)) {
      return false;
    }
    rows.push_back(row);
  }
  return true;
}

}  // namespace

RowNumber DataPosition::Reading::min() const { return *std::ranges::min_element(next); }
RowNumber DataPosition::Reading::max() const { return *std::ranges::max_element(next); }

DataPosition::DataPosition(const Division& division)
    : readings_{{division, std::vector<RowNumber>(division.shares)}} {}

DataPosition DataPosition::ContinueWith(const Division& division) const {
  DataPosition result = *this;
  if (division != this->division()) result.turn_ = 0;
  Reading reading{division, std::vector<RowNumber>(division.shares)};
  const auto same = std::ranges::find(result.readings_, division, &Reading::division);
  if (same != result.readings_.end()) {
    reading = std::move(*same);
    result.readings_.erase(same);
  }
  for (RowNumber& next : reading.next) next = std::max(next, first());
  result.readings_.push_back(std::move(reading));
  result.Forget();
  return result;
}

void DataPosition::Forget() {
  const Reading last = readings_.back();
  std::erase_if(readings_,
                [passed = last.min()](const Reading& one) { return one.max() <= passed; });
  if (readings_.empty() || readings_.back() != last) readings_.push_back(last);
}

void DataPosition::Advance(const ShareProgress& progress) {
  std::vector<RowNumber>& next = readings_.back().next;
  SIMURGH_CHECK_LT(progress.share, next.size());
  next[progress.share] = std::max(next[progress.share], progress.next);
  files_ = std::max(files_, progress.files);
  turn_ = (progress.share + 1) % static_cast<uint32_t>(next.size());
}

std::vector<uint64_t> DataPosition::Numbers() const {
  std::vector<uint64_t> numbers{files_};
  for (const RowNumber& next : readings_.back().next) {
    numbers.push_back(next.epoch);
    numbers.push_back(next.row);
  }
  return numbers;
}

void DataPosition::Merge(std::span<const uint64_t> numbers) {
  std::vector<RowNumber>& next = readings_.back().next;
  SIMURGH_CHECK_EQ(numbers.size(), 1 + 2 * next.size());
  files_ = std::max(files_, static_cast<uint32_t>(numbers[0]));
  for (size_t share = 0; share < next.size(); ++share) {
    next[share] = std::max(next[share], RowNumber{static_cast<uint32_t>(numbers[1 + 2 * share]),
                                                  numbers[2 + 2 * share]});
  }
  Forget();
}

RowNumber DataPosition::first() const {
  RowNumber first;
  for (const Reading& reading : readings_) first = std::max(first, reading.min());
  return first;
}

bool DataPosition::IsRead(const RowNumber& row) const {
  return std::ranges::any_of(readings_, [&](const Reading& reading) {
    return row < reading.next[reading.division.ShareOf(row.row)];
  });
}

uint64_t DataPosition::EndOfRead(uint32_t epoch) const {
  uint64_t end = 0;
  for (const Reading& reading : readings_) {
    const RowNumber max = reading.max();
    if (max.epoch > epoch) return ~uint64_t{0};
    if (max.epoch == epoch) end = std::max(end, max.row);
  }
  return end;
}

std::string DataPosition::ToText() const {
  std::string text = absl::StrCat("files=", files_, " turn=", turn_);
  for (const Reading& reading : readings_) {
    const auto format = [](std::string* out, const RowNumber& row) {
      absl::StrAppend(out, row.epoch, ":", row.row);
    };
    absl::StrAppend(&text, "\nbatch_size=", reading.division.batch_size,
                    " piece_batches=", reading.division.piece_batches,
                    " next=", absl::StrJoin(reading.next, ",", format));
  }
  return text;
}

StatusOr<DataPosition> DataPosition::FromText(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  DataPosition position;
  position.readings_.clear();
  const std::vector<std::string> head = absl::StrSplit(lines[0], ' ');
  bool valid = head.size() == 2 && ReadNumber(head[0], "files=", position.files_) &&
               ReadNumber(head[1], "turn=", position.turn_);
  for (size_t i = 1; i < lines.size() && valid; ++i) {
    Reading reading;
    Division& division = reading.division;
    const std::vector<std::string> fields = absl::StrSplit(lines[i], ' ');
    valid = fields.size() == 3 && ReadNumber(fields[0], "batch_size=", division.batch_size) &&
            ReadNumber(fields[1], "piece_batches=", division.piece_batches) &&
            ReadRows(fields[2], reading.next) && division.batch_size > 0 &&
            division.piece_batches > 0;
    division.shares = static_cast<uint32_t>(reading.next.size());
    position.readings_.push_back(std::move(reading));
  }
  if (!valid || position.readings_.empty() || position.turn_ >= position.division().shares) {
    return absl::DataLossError("it has no valid data position; use an undamaged copy of the model");
  }
  return position;
}

}  // namespace simurgh
