#include "services/datagen/report.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "simurgh/nn/metrics.h"

namespace simurgh {
namespace {

void Extend(std::vector<float>& values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

}  // namespace

void Verdicts::Add(const GeneratedSample& sample) {
  labels.resize(sample.labels.size());
  teacher.resize(sample.labels.size());
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i].push_back(sample.labels[i]);
    teacher[i].push_back(static_cast<float>(sample.teacher_logits[i]));
  }
  additive.push_back(static_cast<float>(sample.additive_logit));
  dense.push_back(static_cast<float>(sample.dense_logit));
}

void Verdicts::Append(const Verdicts& other) {
  labels.resize(std::max(labels.size(), other.labels.size()));
  teacher.resize(labels.size());
  for (size_t i = 0; i < other.labels.size(); ++i) {
    Extend(labels[i], other.labels[i]);
    Extend(teacher[i], other.teacher[i]);
  }
  Extend(additive, other.additive);
  Extend(dense, other.dense);
}

std::string Report(const Verdicts& verdicts, uint64_t samples, uint64_t positives,
                   uint64_t distinct_ids, bool json) {
  const auto auc = [&](const std::vector<float>& scores, size_t label) {
    const double value = verdicts.labels.empty() ? NAN : ExactAuc(verdicts.labels[label], scores);
    if (std::isnan(value)) return std::string(json ? "null" : "nan");
    return absl::StrFormat("%.6f", value);
  };
  std::vector<std::pair<std::string, std::string>> entries = {
      {"samples", absl::StrCat(samples)},
      {"distinct_ids", absl::StrCat(distinct_ids)},
      {"positive_rate",
       absl::StrFormat("%.6f", static_cast<double>(positives) / static_cast<double>(samples))},
      {"auc_samples", absl::StrCat(verdicts.dense.size())},
      {"teacher_auc", auc(verdicts.teacher.empty() ? verdicts.dense : verdicts.teacher[0], 0)},
      {"teacher_auc_without_interactions", auc(verdicts.additive, 0)},
      {"teacher_auc_dense_only", auc(verdicts.dense, 0)},
  };
  for (size_t i = 1; i < verdicts.labels.size(); ++i) {
    entries.emplace_back(absl::StrCat("teacher_auc_label", i + 1), auc(verdicts.teacher[i], i));
  }
  const auto join = [&](const char* separator, const char* quote, const char* colon) {
    return absl::StrJoin(entries, separator, [&](std::string* out, const auto& entry) {
      absl::StrAppend(out, quote, entry.first, quote, colon, entry.second);
    });
  };
  return json ? absl::StrCat("{", join(", ", "\"", ": "), "}\n")
              : absl::StrCat(join("\n", "", " "), "\n");
}

}  // namespace simurgh
