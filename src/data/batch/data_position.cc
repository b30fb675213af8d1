#include "data/batch/data_position.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "base/check.h"

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

// Reads "places=ROW:FILE:AT:AT:AT:AT,...", some with ":WINDOW".
bool ReadPlaces(const std::string& field, std::vector<ReadPlace>& places) {
  constexpr std::string_view kName = "places=";
  if (!field.starts_with(kName)) return false;
  const std::vector<std::string> texts = absl::StrSplit(field.substr(kName.size()), ',');
  if (texts.size() != places.size()) return false;
  for (size_t i = 0; i < texts.size(); ++i) {
    ReadPlace& place = places[i];
    const std::vector<std::string> numbers = absl::StrSplit(texts[i], ':');
    const size_t least = 2 + place.at.size();
    const bool has_window = numbers.size() == least + 1;
    if ((numbers.size() != least && !has_window) || !absl::SimpleAtoi(numbers[0], &place.row) ||
        !absl::SimpleAtoi(numbers[1], &place.file) ||
        (has_window && !absl::SimpleAtoi(numbers[least], &place.window))) {
      return false;
    }
    for (size_t k = 0; k < place.at.size(); ++k) {
      if (!absl::SimpleAtoi(numbers[2 + k], &place.at[k])) return false;
    }
  }
  return true;
}

// Reads "shuffle=EPOCH:ROWS,EPOCH:ROWS".
bool ReadWindows(const std::string& field, std::map<uint32_t, uint64_t>& windows) {
  constexpr std::string_view kName = "shuffle=";
  if (!field.starts_with(kName)) return false;
  const std::vector<std::string> texts = absl::StrSplit(field.substr(kName.size()), ',');
  return std::ranges::all_of(texts, [&windows](const std::string& text) {
    const std::vector<std::string> numbers = absl::StrSplit(text, ':');
    uint32_t epoch = 0;
    uint64_t rows = 0;
    return numbers.size() == 2 && absl::SimpleAtoi(numbers[0], &epoch) &&
           absl::SimpleAtoi(numbers[1], &rows) && windows.emplace(epoch, rows).second;
  });
}

constexpr char kStream[] = "stream=";

}  // namespace

bool IsPartitionName(std::string_view name) {
  return name.find('/') != name.npos && name.find_first_of(",:") == name.npos;
}

void Advance(StreamOffsets& offsets, const StreamOffsets& more) {
  for (const auto& [partition, next] : more) {
    RecordPlace& place = offsets[partition];
    place = std::max(place, next);
  }
}

std::string OffsetsText(const StreamOffsets& offsets) {
  return absl::StrJoin(offsets, ",", [](std::string* text, const auto& one) {
    absl::StrAppend(text, one.first, ":", one.second.offset);
    if (one.second.row > 0) absl::StrAppend(text, ":", one.second.row);
  });
}

StatusOr<StreamOffsets> OffsetsFromText(const std::string& text) {
  StreamOffsets offsets;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(part, ':');
    RecordPlace next;
    if (fields.size() < 2 || fields.size() > 3 || fields[0].find('/') == std::string::npos ||
        !absl::SimpleAtoi(fields[1], &next.offset) ||
        (fields.size() == 3 && !absl::SimpleAtoi(fields[2], &next.row)) ||
        !offsets.emplace(fields[0], next).second) {
      return absl::DataLossError("it has no valid offsets; use an undamaged copy of the model");
    }
  }
  return offsets;
}

size_t DataPosition::Reading::first_share() const {
  return static_cast<size_t>(std::ranges::min_element(next) - next.begin());
}
RowNumber DataPosition::Reading::max() const { return *std::ranges::max_element(next); }

DataPosition::DataPosition(const Division& division) : readings_{Reading(division)} {}

DataPosition DataPosition::ContinueWith(const Division& division) const {
  DataPosition result = *this;
  if (division != this->division()) result.turn_ = 0;
  Reading reading(division);
  const auto same = std::ranges::find(result.readings_, division, &Reading::division);
  if (same != result.readings_.end()) {
    reading = std::move(*same);
    result.readings_.erase(same);
  }
  const Reading& from = FirstReading();
  for (size_t share = 0; share < reading.next.size(); ++share) {
    if (reading.next[share] >= from.min()) continue;
    reading.next[share] = from.min();
    reading.places[share] = from.places[from.first_share()];
  }
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
  Reading& reading = readings_.back();
  std::vector<RowNumber>& next = reading.next;
  SIMURGH_CHECK_LT(progress.share, next.size());
  if (progress.next > next[progress.share]) {
    next[progress.share] = progress.next;
    reading.places[progress.share] = progress.place;
  }
  files_ = std::max(files_, progress.files);
  Merge(progress.offsets);
  turn_ = (progress.share + 1) % static_cast<uint32_t>(next.size());
}

std::vector<uint64_t> DataPosition::Numbers() const {
  std::vector<uint64_t> numbers{files_};
  const Reading& reading = readings_.back();
  for (size_t share = 0; share < reading.next.size(); ++share) {
    const RowNumber& next = reading.next[share];
    const ReadPlace& place = reading.places[share];
    numbers.insert(numbers.end(), {next.epoch, next.row, place.row, place.file});
    numbers.insert(numbers.end(), place.at.begin(), place.at.end());
    numbers.push_back(place.window);
  }
  return numbers;
}

void DataPosition::Merge(std::span<const uint64_t> numbers) {
  Reading& reading = readings_.back();
  // Numbers per share: of `next` and of the place.
  constexpr size_t kNumbers = 5 + std::tuple_size_v<decltype(ReadPlace::at)>;
  SIMURGH_CHECK_EQ(numbers.size(), 1 + kNumbers * reading.next.size());
  files_ = std::max(files_, static_cast<uint32_t>(numbers[0]));
  for (size_t share = 0; share < reading.next.size(); ++share) {
    const std::span<const uint64_t> one = numbers.subspan(1 + kNumbers * share, kNumbers);
    const RowNumber next{static_cast<uint32_t>(one[0]), one[1]};
    if (next <= reading.next[share]) continue;
    reading.next[share] = next;
    ReadPlace& place = reading.places[share];
    place = {.row = one[2], .file = one[3], .window = one.back()};
    std::ranges::copy(one.subspan(4, place.at.size()), place.at.begin());
  }
  Forget();
}

const DataPosition::Reading& DataPosition::FirstReading() const {
  return *std::ranges::max_element(readings_, {}, &Reading::min);
}

RowNumber DataPosition::first() const { return FirstReading().min(); }

RowNumber DataPosition::BeginOf(const Division& division, uint32_t share) const {
  return division == this->division() ? next(share) : first();
}

uint64_t DataPosition::window(uint32_t epoch) const {
  const auto after = windows_.upper_bound(epoch);
  return after == windows_.begin() ? 0 : std::prev(after)->second;
}

std::map<uint64_t, uint64_t> DataPosition::short_windows(uint32_t epoch) const {
  std::map<uint64_t, uint64_t> windows;
  for (const Reading& reading : readings_) {
    for (size_t share = 0; share < reading.places.size(); ++share) {
      const ReadPlace& place = reading.places[share];
      if (reading.next[share].epoch == epoch && place.window > 0) windows[place.row] = place.window;
    }
  }
  return windows;
}

void DataPosition::SetWindow(uint64_t rows) {
  RowNumber last;
  for (const Reading& reading : readings_) last = std::max(last, reading.max());
  const uint32_t from = last.row == 0 ? last.epoch : last.epoch + 1;
  windows_.erase(windows_.lower_bound(from), windows_.end());
  if (rows != window(from)) windows_[from] = rows;
}

ReadPlace DataPosition::PlaceOf(const Division& division, uint32_t share, uint32_t epoch) const {
  const Reading& last = readings_.back();
  if (last.division == division && last.next[share].epoch == epoch) return last.places[share];
  const Reading& from = FirstReading();
  return from.min().epoch == epoch ? from.places[from.first_share()] : ReadPlace();
}

void DataPosition::ForgetPlaces() {
  for (Reading& reading : readings_) {
    for (size_t share = 0; share < reading.places.size(); ++share) {
      ReadPlace& place = reading.places[share];
      const bool is_shuffled = window(reading.next[share].epoch) > 0;
      // Rows were read in the order of their window, so its begin and size stay.
      place = is_shuffled
                  ? ReadPlace{.row = place.row, .file = ReadPlace::kNoFile, .window = place.window}
                  : ReadPlace();
    }
  }
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
  std::string text = absl::StrCat("version=2 files=", files_, " turn=", turn_);
  if (!windows_.empty()) {
    absl::StrAppend(&text, " shuffle=", absl::StrJoin(windows_, ",", absl::PairFormatter(":")));
  }
  if (!offsets_.empty()) absl::StrAppend(&text, "\n", kStream, OffsetsText(offsets_));
  for (const Reading& reading : readings_) {
    const auto format = [](std::string* out, const RowNumber& row) {
      absl::StrAppend(out, row.epoch, ":", row.row);
    };
    const auto format_place = [](std::string* out, const ReadPlace& place) {
      absl::StrAppend(out, place.row, ":", place.file, ":", absl::StrJoin(place.at, ":"));
      if (place.window > 0) absl::StrAppend(out, ":", place.window);
    };
    absl::StrAppend(&text, "\nbatch_size=", reading.division.batch_size,
                    " piece_batches=", reading.division.piece_batches,
                    " next=", absl::StrJoin(reading.next, ",", format),
                    " places=", absl::StrJoin(reading.places, ",", format_place));
  }
  return text;
}

StatusOr<DataPosition> DataPosition::FromText(const std::string& text) {
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  DataPosition position;
  position.readings_.clear();
  std::vector<std::string> head = absl::StrSplit(lines[0], ' ');
  const bool has_places = head[0] == "version=2";
  if (has_places) head.erase(head.begin());
  const bool has_windows = head.size() == 3;
  bool valid = (head.size() == 2 || has_windows) &&
               ReadNumber(head[0], "files=", position.files_) &&
               ReadNumber(head[1], "turn=", position.turn_) &&
               (!has_windows || ReadWindows(head[2], position.windows_));
  for (size_t i = 1; i < lines.size() && valid; ++i) {
    if (i == 1 && lines[i].starts_with(kStream)) {
      SIMURGH_ASSIGN_OR_RETURN(position.offsets_,
                               OffsetsFromText(lines[i].substr(sizeof(kStream) - 1)));
      continue;
    }
    Division division;
    std::vector<RowNumber> next;
    const std::vector<std::string> fields = absl::StrSplit(lines[i], ' ');
    valid = fields.size() == (has_places ? 4 : 3) &&
            ReadNumber(fields[0], "batch_size=", division.batch_size) &&
            ReadNumber(fields[1], "piece_batches=", division.piece_batches) &&
            ReadRows(fields[2], next) && division.batch_size > 0 && division.piece_batches > 0;
    division.shares = static_cast<uint32_t>(next.size());
    Reading reading(division);
    reading.next = std::move(next);
    valid = valid && (!has_places || ReadPlaces(fields[3], reading.places));
    position.readings_.push_back(std::move(reading));
  }
  if (!valid || position.readings_.empty() || position.turn_ >= position.division().shares) {
    return absl::DataLossError("it has no valid data position; use an undamaged copy of the model");
  }
  return position;
}

}  // namespace simurgh
