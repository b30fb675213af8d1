#include "report/segments.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace simurgh {
namespace {

constexpr size_t kRanges = 8;

// Most different numbers that stay values, without ranges.
constexpr size_t kFewNumbers = 20;

// Numbers of segments that have joined others are forgotten from here on.
constexpr size_t kMostNumbers = size_t{1} << 20;

constexpr char kEmpty[] = "(empty)";

// Returns the number of a value; NaN for a text.
double NumberOf(const std::string& value) {
  double number = 0;
  const bool is_number = absl::SimpleAtod(value, &number) && std::isfinite(number);
  return is_number ? number : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void AddSums(const PredictionSums& more, PredictionSums& sums) {
  sums.samples += more.samples;
  sums.positives += more.positives;
  sums.weight += more.weight;
  sums.labels += more.labels;
  sums.predicted += more.predicted;
  sums.squared_errors += more.squared_errors;
  sums.cross_entropy += more.cross_entropy;
  sums.loss += more.loss;
  sums.squared_labels += more.squared_labels;
}

// The most rows first, then the earliest value.
constexpr auto kOrder = [](const auto& entry) {
  return std::pair(UINT64_MAX - entry.segment.rows, entry.number);
};

SegmentCounter::SegmentCounter(std::string column, const Options& options)
    : column_(std::move(column)), options_(options) {
  rest_.segment = {.name = "other", .is_rest = true, .sums = {}};
  rest_.segment.sums.resize(options.labels);
  rest_.number = NewNumber();
}

uint32_t SegmentCounter::NewNumber() {
  forward_.push_back(static_cast<uint32_t>(forward_.size()));
  return forward_.back();
}

void SegmentCounter::Join(const Entry& entry, Entry& into) {
  into.segment.rows += entry.segment.rows;
  for (size_t label = 0; label < options_.labels; ++label) {
    AddSums(entry.segment.sums[label], into.segment.sums[label]);
  }
  forward_[entry.number] = into.number;
}

size_t SegmentCounter::RangeOf(double value) const {
  const auto next = std::ranges::upper_bound(entries_, value, {}, &Entry::low);
  return next == entries_.begin() ? 0 : static_cast<size_t>(next - entries_.begin()) - 1;
}

SegmentCounter::Entry* SegmentCounter::EntryOf(std::string_view value) {
  if (has_given_up_) return nullptr;
  if (has_ranges_) {
    const double number = NumberOf(std::string(value));
    return std::isnan(number) ? &rest_ : &entries_[RangeOf(number)];
  }
  const absl::string_view text(value.data(), value.size());
  const auto found = places_.find(text);
  if (found != places_.end()) return &entries_[found->second];
  if (entries_.size() == options_.most_values) {
    if (options_.are_numbers) {
      MakeRanges();
      return EntryOf(value);
    }
    if (options_.gives_up) {
      has_given_up_ = true;
      entries_.clear();
      places_.clear();
      return nullptr;
    }
    DropRareValues();
  }
  places_.emplace(text, entries_.size());
  Entry& entry = entries_.emplace_back();
  entry.segment = {.name = std::string(value), .sums = {}};
  entry.segment.sums.resize(options_.labels);
  entry.number = NewNumber();
  return &entry;
}

void SegmentCounter::Add(std::string_view value, std::span<const PredictionSums> sums,
                         std::optional<size_t> place) {
  Entry* const entry = EntryOf(value);
  if (entry == nullptr) return;
  ++entry->segment.rows;
  for (size_t label = 0; label < options_.labels; ++label) {
    AddSums(sums[label], entry->segment.sums[label]);
  }
  if (!place) return;
  if (sample_.size() <= *place) sample_.resize(*place + 1, rest_.number);
  sample_[*place] = entry->number;
}

void SegmentCounter::MakeRanges() {
  std::vector<std::pair<double, size_t>> numbers;  // Numbers and their entries.
  uint64_t rows = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const double number = NumberOf(entries_[i].segment.name);
    if (std::isnan(number)) continue;
    numbers.emplace_back(number, i);
    rows += entries_[i].segment.rows;
  }
  std::ranges::sort(numbers);
  std::vector<Entry> old = std::exchange(entries_, {});
  places_.clear();
  has_ranges_ = true;
  uint64_t before = 0;
  size_t range = kRanges;  // None yet.
  for (const auto& [number, index] : numbers) {
    const size_t own =
        std::min<size_t>(before * kRanges / std::max<uint64_t>(rows, 1), kRanges - 1);
    if (own != range) {
      range = own;
      Entry& entry = entries_.emplace_back();
      entry.low = number;
      entry.segment.sums.resize(options_.labels);
      entry.number = NewNumber();
    }
    Join(old[index], entries_.back());
    before += old[index].segment.rows;
  }
  if (entries_.empty()) {  // No value is a number.
    has_given_up_ = true;
    return;
  }
  for (const Entry& entry : old) {
    if (std::isnan(NumberOf(entry.segment.name))) Join(entry, rest_);
  }
}

void SegmentCounter::DropRareValues() {
  has_dropped_ = true;
  std::vector<Entry> old = std::exchange(entries_, {});
  std::ranges::sort(old, {}, kOrder);
  places_.clear();
  for (size_t i = 0; i < old.size(); ++i) {
    if (i >= old.size() / 2) {
      Join(old[i], rest_);
      continue;
    }
    places_.emplace(old[i].segment.name, entries_.size());
    entries_.push_back(std::move(old[i]));
  }
  if (forward_.size() >= kMostNumbers) Renumber();
}

void SegmentCounter::Renumber() {
  std::vector<uint32_t> fresh(forward_.size(), 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    fresh[entries_[i].number] = static_cast<uint32_t>(i + 1);
    entries_[i].number = static_cast<uint32_t>(i + 1);
  }
  for (uint32_t& number : sample_) {
    while (forward_[number] != number) number = forward_[number];
    number = fresh[number];
  }
  rest_.number = 0;
  forward_.resize(entries_.size() + 1);
  std::iota(forward_.begin(), forward_.end(), 0U);
}

std::vector<Segment> SegmentCounter::Finish(size_t most) {
  if (options_.are_numbers && !has_ranges_ && !has_given_up_ && entries_.size() > kFewNumbers) {
    MakeRanges();
  }
  std::vector<Entry> all = std::exchange(entries_, {});
  if (has_ranges_) {
    for (size_t i = 0; i < all.size(); ++i) {
      all[i].segment.name = i == 0 && all.size() == 1 ? "all numbers"
                            : i == 0                  ? absl::StrFormat("below %g", all[1].low)
                            : i + 1 == all.size()
                                ? absl::StrFormat("from %g", all[i].low)
                                : absl::StrFormat("%g to below %g", all[i].low, all[i + 1].low);
    }
    rest_.segment.name = "no number";
  } else {
    std::ranges::sort(all, {}, kOrder);
  }
  std::vector<Segment> result;
  indices_.assign(forward_.size(), SIZE_MAX);
  for (Entry& entry : all) {
    if (result.size() == most) {
      Join(entry, rest_);
      continue;
    }
    indices_[entry.number] = result.size();
    if (entry.segment.name.empty()) entry.segment.name = kEmpty;
    result.push_back(std::move(entry.segment));
  }
  indices_[rest_.number] = result.size();
  if (rest_.segment.rows > 0) result.push_back(rest_.segment);
  return result;
}

size_t SegmentCounter::SegmentOf(size_t place) const {
  uint32_t number = sample_[place];
  while (forward_[number] != number) number = forward_[number];
  return indices_[number];
}

}  // namespace simurgh
