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
  labels.push_back(sample.label);
  teacher.push_back(static_cast<float>(sample.teacher_logit));
  additive.push_back(static_cast<float>(sample.additive_logit));
  dense.push_back(static_cast<float>(sample.dense_logit));
  others.resize(sample.more_labels.size());
  for (size_t i = 0; i < others.size(); ++i) {
    others[i].labels.push_back(sample.more_labels[i]);
    others[i].teacher.push_back(static_cast<float>(sample.more_teacher_logits[i]));
  }
}

void Verdicts::Append(const Verdicts& other) {
  Extend(labels, other.labels);
  Extend(teacher, other.teacher);
  Extend(additive, other.additive);
  Extend(dense, other.dense);
  others.resize(std::max(others.size(), other.others.size()));
  for (size_t i = 0; i < other.others.size(); ++i) {
    Extend(others[i].labels, other.others[i].labels);
    Extend(others[i].teacher, other.others[i].teacher);
  }
}

std::string Report(const Verdicts& verdicts, uint64_t samples, uint64_t positives,
                   uint64_t distinct_ids, bool json) {
  const auto auc_of = [&](const std::vector<float>& labels, const std::vector<float>& scores) {
    const double value = ExactAuc(labels, scores);
    if (std::isnan(value)) return std::string(json ? "null" : "nan");
    return absl::StrFormat("%.6f", value);
  };
  const auto auc = [&](const std::vector<float>& scores) {
    return auc_of(verdicts.labels, scores);
  };
  std::vector<std::pair<std::string, std::string>> entries = {
      {"samples", absl::StrCat(samples)},
      {"distinct_ids", absl::StrCat(distinct_ids)},
      {"positive_rate",
       absl::StrFormat("%.6f", static_cast<double>(positives) / static_cast<double>(samples))},
      {"auc_samples", absl::StrCat(verdicts.labels.size())},
      {"teacher_auc", auc(verdicts.teacher)},
      {"teacher_auc_without_interactions", auc(verdicts.additive)},
      {"teacher_auc_dense_only", auc(verdicts.dense)},
  };
  for (size_t i = 0; i < verdicts.others.size(); ++i) {
    entries.emplace_back(absl::StrCat("teacher_auc_label", i + 2),
                         auc_of(verdicts.others[i].labels, verdicts.others[i].teacher));
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
