#include "services/simurgh/metrics_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

// The end of a name in `text`.
size_t NameEnd(std::string_view text) {
  const auto is_part = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '_' || c == ':';
  };
  return static_cast<size_t>(std::ranges::find_if_not(text, is_part) - text.begin());
}

// Parses `{name="value",...}` and removes it from the text. Returns whether it is valid.
bool TakeLabels(std::string_view& text, MetricsText::Labels& labels) {
  text.remove_prefix(1);
  while (!text.starts_with('}')) {
    const size_t end = NameEnd(text);
    const std::string name(text.substr(0, end));
    text.remove_prefix(end);
    if (name.empty() || !text.starts_with("=\"")) return false;
    text.remove_prefix(2);
    std::string& value = labels[name];
    for (; !text.empty() && text.front() != '"'; text.remove_prefix(1)) {
      if (text.front() == '\\') {
        text.remove_prefix(1);
        if (text.empty()) return false;
        value += text.front() == 'n' ? '\n' : text.front();
      } else {
        value += text.front();
      }
    }
    if (text.empty()) return false;
    text.remove_prefix(1);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  text.remove_prefix(1);
  return true;
}

}  // namespace

StatusOr<MetricsText> MetricsText::Parse(std::string_view text) {
  MetricsText metrics;
  size_t number = 0;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    std::string_view line(part.data(), part.size());
    ++number;
    if (line.empty() || line.front() == '#') continue;
    const Status malformed =
        absl::InvalidArgumentError(absl::StrCat("line ", number, " of the metrics is malformed"));
    const size_t end = NameEnd(line);
    const std::string name(line.substr(0, end));
    line.remove_prefix(end);
    Labels labels;
    if (name.empty() || (line.starts_with('{') && !TakeLabels(line, labels))) return malformed;
    const std::vector<std::string> words =
        absl::StrSplit(absl::string_view(line.data(), line.size()), ' ', absl::SkipEmpty());
    double value = 0;
    if (words.empty() || words.size() > 2 || !absl::SimpleAtod(words[0], &value)) return malformed;
    metrics.series_[name].emplace_back(std::move(labels), value);
  }
  return metrics;
}

std::optional<double> MetricsText::Sum(const std::string& name, const Labels& labels) const {
  const auto found = series_.find(name);
  if (found == series_.end()) return std::nullopt;
  std::optional<double> sum;
  for (const auto& [own, value] : found->second) {
    if (!std::ranges::includes(own, labels)) continue;
    sum = sum.value_or(0) + value;
  }
  return sum;
}

std::optional<std::string> MetricsText::Label(const std::string& label,
                                              const std::string& name) const {
  const auto found = series_.find(name);
  if (found == series_.end()) return std::nullopt;
  const Labels& labels = found->second.front().first;
  const auto value = labels.find(label);
  return value == labels.end() ? std::nullopt : std::optional(value->second);
}

}  // namespace simurgh
