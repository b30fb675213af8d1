#include "data/processing/feature_ids.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include <farmhash.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "base/check.h"
#include "base/invalid.h"
#include "base/log.h"
#include "base/text.h"
#include "data/processing/times.h"

namespace simurgh {

static_assert(std::endian::native == std::endian::little, "hashes are of little-endian bytes");

void HashStackRows(const HashStackConfig& config, uint64_t id, std::span<uint64_t> rows) {
  SIMURGH_CHECK_EQ(rows.size(), config.rounds);
  uint64_t hash = id;
  for (size_t round = 0; round < rows.size(); ++round) {
    char bytes[sizeof(hash)];
    std::memcpy(bytes, &hash, sizeof(hash));
    hash = util::Fingerprint64(bytes, sizeof(bytes));
    rows[round] = hash % config.buckets + round * config.buckets;
  }
}

namespace {

using Hash = ProcessingConfig::Hash;
using Missing = ProcessingConfig::Missing;

// Returns whether a number is its own id.
bool KeepsNumbers(const ProcessingConfig& processing) {
  return processing.hash == Hash::kNone || (processing.hash == Hash::kAuto && processing.seed == 0);
}

// Returns whether the ids of a cell of numbers are these numbers, without further processing.
bool TakesNumbersAsTheyAre(const FeatureConfig& config, size_t columns) {
  const ProcessingConfig& processing = config.processing;
  return KeepsNumbers(processing) && columns == 1 && processing.plugin.path.empty() &&
         processing.boundaries.empty() && processing.vocabulary.empty() &&
         processing.date == ProcessingConfig::Date::kNone && processing.missing == Missing::kSkip &&
         processing.max_length == 0 && processing.modulo == 0 && config.hash_stack.rounds == 0 &&
         config.weight_separator == '\0';
}

}  // namespace

FeatureIds::FeatureIds(const FeatureConfig& config, std::vector<size_t> columns,
                       std::optional<Plugin> plugin, const std::vector<std::string>& missing_values,
                       const std::map<uint64_t, ValueScale>& value_scales, bool warns)
    : config_(config),
      columns_(std::move(columns)),
      takes_numbers_(TakesNumbersAsTheyAre(config, columns_.size())),
      plugin_(std::move(plugin)),
      missing_values_(missing_values),
      value_scales_(value_scales.begin(), value_scales.end()),
      warns_(warns) {
  const ProcessingConfig& processing = config.processing;
  SIMURGH_CHECK_EQ(columns_.size(), config.sources().size());
  SIMURGH_CHECK(processing.quantiles == 0 || !processing.boundaries.empty()) << "fit statistics";
  for (const std::string& word : processing.vocabulary) {
    vocabulary_.emplace(word, vocabulary_.size());
  }
}

StatusOr<FeatureIds> FeatureIds::Create(const FeatureConfig& config, std::vector<size_t> columns,
                                        const std::vector<std::string>& missing_values,
                                        const std::map<uint64_t, ValueScale>& value_scales,
                                        bool warns) {
  std::optional<Plugin> plugin;
  if (!config.processing.plugin.path.empty()) {
    const PluginPurpose purpose{.name = config.name, .columns = config.sources()};
    SIMURGH_ASSIGN_OR_RETURN(plugin, Plugin::Create(config.processing.plugin, purpose));
  }
  return FeatureIds(config, std::move(columns), std::move(plugin), missing_values, value_scales,
                    warns);
}

std::optional<uint64_t> FeatureIds::plain_seed() const {
  const ProcessingConfig& processing = config_.processing;
  const bool is_plain = columns_.size() == 1 && !plugin_ && processing.boundaries.empty() &&
                        processing.date == ProcessingConfig::Date::kNone && vocabulary_.empty() &&
                        processing.hash != Hash::kNone && processing.hash != Hash::kInteger &&
                        processing.missing == Missing::kSkip && processing.max_length == 0 &&
                        !processing.pad && processing.modulo == 0 &&
                        config_.hash_stack.rounds == 0 && config_.weight_separator == '\0';
  return is_plain ? std::optional(processing.seed) : std::nullopt;
}

Status FeatureIds::BadToken(const Token& token, std::string_view problem) const {
  return Invalid("feature '%s': %s %s", config_.name, Quoted(token.text), problem);
}

StatusOr<std::optional<uint64_t>> FeatureIds::IdOf(const Token& token) const {
  const ProcessingConfig& processing = config_.processing;
  if (processing.date != ProcessingConfig::Date::kNone) {
    const auto days = ParseNumberCell(token.text);  // A column of dates gives days.
    if (!days)
      return BadToken(token, "is not a date; correct it, or add it to data.missing_values");
    return processing.date == ProcessingConfig::Date::kHour ? HourOf(*days) : WeekdayOf(*days);
  }
  if (!processing.boundaries.empty()) {
    // A hexadecimal id has no numeric value.
    const auto value = token.is_number ? std::nullopt : ParseNumberCell(token.text);
    if (!value) {
      return BadToken(token,
                      "is not a finite number; correct it, or add it to data.missing_values");
    }
    return BucketOf(processing.boundaries, *value);
  }
  if (!vocabulary_.empty()) {
    const auto word = vocabulary_.find(absl::string_view(token.text.data(), token.text.size()));
    if (word != vocabulary_.end()) return word->second;
    if (processing.oov_ids == 0) return std::nullopt;
    return vocabulary_.size() + HashText(token.text, processing.seed) % processing.oov_ids;
  }
  if (processing.hash == Hash::kText || (processing.hash == Hash::kAuto && !token.is_number)) {
    return HashText(token.text, processing.seed);
  }
  const auto value = token.is_number ? std::optional(token.number) : ParseIntegerCell(token.text);
  if (!value) {
    return BadToken(token, "is not an integer of 64 bits; correct it, or hash it as text");
  }
  return KeepsNumbers(processing) ? *value : HashInteger(*value, processing.seed);
}

Status FeatureIds::OfCell(std::span<const Token> tokens, std::vector<uint64_t>& ids) {
  for (const Token& token : tokens) {
    SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> id, IdOf(token));
    if (id.has_value()) {
      ids.push_back(*id);
    } else {
      unknown_ = token.text;
    }
  }
  return absl::OkStatus();
}

namespace {

// Larger weights get a warning: a row's gradient grows with the weight, as does its effect on the
// sum.
constexpr float kLargeWeight = 1'000;

// Warns once in a process: files are read by several threads, and again in each epoch.
void WarnOfLargeWeight(const std::string& feature, std::string_view value, float weight) {
  static std::atomic<bool> has_warned = false;
  if (has_warned.exchange(true)) return;
  spdlog::warn(
      "feature '{}': the value of {} is {:g}, and values above {:g} make training diverge; divide "
      "them, or take their logarithm",
      feature, Quoted(value), weight, kLargeWeight);
}

}  // namespace

float FeatureIds::ScaledWeight(std::string_view value, float weight) const {
  if (value_scales_.empty()) return weight;
  const auto index = ParseIntegerCell(value);
  const auto scale = index ? value_scales_.find(*index) : value_scales_.end();
  if (scale == value_scales_.end()) return weight;
  return static_cast<float>((double{weight} - scale->second.mean) / scale->second.stddev);
}

Status FeatureIds::OfWeightedCell(std::span<const Token> tokens) {
  for (const Token& token : tokens) {
    Token value = token;
    std::optional<float> weight = token.weight;
    if (!token.has_weight) {
      const size_t separator = token.text.rfind(config_.weight_separator);
      value.text = TrimBlanks(token.text.substr(0, separator), '\0');
      if (std::ranges::find(missing_values_, value.text) != missing_values_.end()) continue;
      if (separator != std::string_view::npos) {
        weight = ParseFloatCell(TrimBlanks(token.text.substr(separator + 1), '\0'));
      }
    }
    if (!weight || !std::isfinite(*weight)) {
      return BadToken(token,
                      "has a weight that is not a finite number; correct it, or leave it out");
    }
    weight = ScaledWeight(value.text, *weight);
    if (warns_ && std::abs(*weight) > kLargeWeight)
      WarnOfLargeWeight(config_.name, token.text, *weight);
    const size_t before = ids_.size();
    SIMURGH_RETURN_IF_ERROR(OfCell({&value, 1}, ids_));
    if (ids_.size() > before) weights_.push_back(*weight);
  }
  return absl::OkStatus();
}

Status FeatureIds::CheckCrossed(const RowCells& cells,
                                std::span<const std::vector<uint64_t>> lists) const {
  size_t combinations = 1;
  for (const std::vector<uint64_t>& list : lists) {
    combinations = std::min(combinations * list.size(), kMaxCrossedIds + 1);
  }
  if (combinations <= kMaxCrossedIds) return absl::OkStatus();
  std::string counts;
  for (size_t c = 0; c < lists.size(); ++c) {
    absl::StrAppend(&counts, c == 0 ? "" : ", ", lists[c].size(), " of '", config_.columns[c],
                    "' from ", Quoted(cells.cell(columns_[c]).front().text), " on");
  }
  return Invalid("feature '%s': its columns cross to more than %d ids (%s); shorten the lists",
                 config_.name, kMaxCrossedIds, counts);
}

// Sets the ids of all combinations. The last column's tokens change fastest. There are none if a
// column has none.
Status FeatureIds::Cross(const RowCells& cells) {
  std::vector<std::vector<uint64_t>> lists(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    SIMURGH_RETURN_IF_ERROR(OfCell(cells.cell(columns_[c]), lists[c]));
  }
  if (std::ranges::any_of(lists, [](const auto& list) { return list.empty(); })) {
    return absl::OkStatus();
  }
  SIMURGH_RETURN_IF_ERROR(CheckCrossed(cells, lists));
  size_t combinations = 1;
  for (const std::vector<uint64_t>& list : lists) combinations *= list.size();
  scratch_.resize(columns_.size());
  for (size_t number = 0; number < combinations; ++number) {
    size_t rest = number;
    for (size_t c = columns_.size(); c-- > 0; rest /= lists[c].size()) {
      scratch_[c] = lists[c][rest % lists[c].size()];
    }
    ids_.push_back(CrossIds(scratch_, config_.processing.seed));
  }
  return absl::OkStatus();
}

Status FeatureIds::NoIds(const RowCells& cells) const {
  constexpr char kRemedy[] = "correct the row, or choose another rule for `missing`";
  if (unknown_.has_value()) {
    return BadToken({.text = *unknown_},
                    absl::StrCat("is not in its vocabulary; add it, give `oov_ids`, ", kRemedy));
  }
  std::string what = "its value is missing";
  if (columns_.size() > 1 || plugin_.has_value()) {
    const auto empty = std::ranges::find_if(
        columns_, [&cells](size_t column) { return cells.cell(column).empty(); });
    what = empty == columns_.end() ? "the plug-in makes no ids"
                                   : absl::StrFormat("its value of column '%s' is missing",
                                                     config_.sources()[empty - columns_.begin()]);
    absl::StrAppend(&what, " (of ", QuotedValues(cells, columns_), ")");
  }
  return Invalid("feature '%s': %s; %s", config_.name, what, kRemedy);
}

Status FeatureIds::CheckReserved(const RowCells& cells) const {
  const ProcessingConfig& processing = config_.processing;
  if (!processing.pad && processing.missing != Missing::kId) return absl::OkStatus();
  for (const uint64_t id : ids_) {
    if (id < kMissingId) continue;
    return Invalid(
        "feature '%s': a value of %s has the id %d (%d). It is reserved for padding or missing "
        "values; correct the value, or hash it as `integer`",
        config_.name, QuotedValues(cells, columns_), id, static_cast<int64_t>(id));
  }
  return absl::OkStatus();
}

// Replaces ids by the rows of their hash stacks. Each row has the weight of its id.
void FeatureIds::Fold() {
  const HashStackConfig& stack = config_.hash_stack;
  if (stack.rounds == 0) return;
  scratch_.resize(ids_.size() * stack.rounds);
  for (size_t i = 0; i < ids_.size(); ++i) {
    HashStackRows(stack, ids_[i], std::span(scratch_).subspan(i * stack.rounds, stack.rounds));
  }
  ids_.swap(scratch_);
  std::vector<float> folded;
  for (const float weight : weights_) folded.insert(folded.end(), stack.rounds, weight);
  weights_.swap(folded);
}

// Returns whether a row's ids have weights. A feature of several columns ignores those of cells.
bool FeatureIds::HasWeights(const RowCells& cells) const {
  if (config_.weight_separator != '\0') return true;
  if (columns_.size() > 1) return false;
  const std::span<const Token> tokens = cells.cell(columns_[0]);
  return !tokens.empty() && tokens.front().has_weight;
}

Status FeatureIds::MakeIds(const RowCells& cells) {
  if (plugin_.has_value()) return plugin_->MakeIds(cells, columns_, ids_, weights_);
  if (HasWeights(cells)) return OfWeightedCell(cells.cell(columns_[0]));
  return columns_.size() == 1 ? OfCell(cells.cell(columns_[0]), ids_) : Cross(cells);
}

bool FeatureIds::TakeNumbers(std::span<const Token> tokens) {
  for (const Token& token : tokens) {
    if (!token.is_number) {
      ids_.clear();
      return false;
    }
    ids_.push_back(token.number);
  }
  return true;
}

StatusOr<const std::vector<uint64_t>*> FeatureIds::Of(const RowCells& cells) {
  if (has_ids_ && cells.AreRepeated(columns_)) return &ids_;
  has_ids_ = false;
  SIMURGH_RETURN_IF_ERROR(SetIds(cells));
  has_ids_ = true;
  return &ids_;
}

Status FeatureIds::SetIds(const RowCells& cells) {
  const bool weighted = plugin_.has_value() || HasWeights(cells);
  ids_.clear();
  weights_.clear();
  unknown_.reset();
  if (takes_numbers_ && TakeNumbers(cells.cell(columns_[0]))) return absl::OkStatus();
  SIMURGH_RETURN_IF_ERROR(MakeIds(cells));
  if (config_.processing.modulo > 0) {
    for (uint64_t& id : ids_) id %= config_.processing.modulo;
  }
  SIMURGH_RETURN_IF_ERROR(CheckReserved(cells));
  if (ids_.empty() && config_.processing.missing != Missing::kSkip) {
    if (config_.processing.missing == Missing::kFail) return NoIds(cells);
    ids_.push_back(kMissingId);
    if (weighted) weights_.push_back(1.0F);
  }
  FitLength(config_.processing, kPaddingId, ids_);
  if (weighted) FitLength(config_.processing, 1.0F, weights_);
  Fold();
  return absl::OkStatus();
}

}  // namespace simurgh
