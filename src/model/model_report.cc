#include "simurgh/model/model_report.h"

#include <array>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "simurgh/model/tensor_file.h"

namespace simurgh {
namespace {

std::string TimeText(int64_t seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

std::string KindText(const Manifest& manifest) {
  if (!manifest.parent.has_value()) return "full";
  return absl::StrCat("delta of step ", manifest.parent->step);
}

std::string MetricsText(const Manifest& manifest, const char* separator) {
  return absl::StrJoin(manifest.metrics, separator, [](std::string* text, const auto& metric) {
    absl::StrAppendFormat(text, "%s=%.6g", metric.first, metric.second);
  });
}

uint64_t TotalBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const ModelFile& file : manifest.files) bytes += file.bytes;
  return bytes;
}

}  // namespace

StatusOr<std::string> ListCheckpoints(ModelDirectory& model) {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, model.Steps());
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, model.BestStep());
  std::string text;
  for (const uint64_t step : steps) {
    const StatusOr<Checkpoint> checkpoint = model.Open(step);
    if (!checkpoint.ok()) {
      absl::StrAppend(&text, "step-", step, "  unreadable: ", checkpoint.status().message(), "\n");
      continue;
    }
    const Manifest& manifest = checkpoint->manifest;
    absl::StrAppend(&text, "step-", step, "  ", KindText(manifest), "  generation ",
                    manifest.generation, "  ", TimeText(manifest.step_time), "  ", manifest.samples,
                    " samples  ", TotalBytes(manifest), " bytes  ", MetricsText(manifest, " "),
                    step == best ? "  best\n" : "\n");
  }
  return text.empty() ? absl::StrCat("no checkpoints\n") : text;
}

StatusOr<std::string> DescribeCheckpoint(const Checkpoint& checkpoint) {
  const Manifest& manifest = checkpoint.manifest;
  std::string text = absl::StrCat("folder: ", checkpoint.folder, "\nkind: ", KindText(manifest),
                                  "\nrun: ", manifest.run, "\ngeneration: ", manifest.generation,
                                  "\nstep: ", manifest.step, "\nsamples: ", manifest.samples,
                                  "\nstep time: ", TimeText(manifest.step_time),
                                  "\nchecksum: ", absl::Hex(checkpoint.checksum, absl::kZeroPad16),
                                  "\nmetrics: ", MetricsText(manifest, " "), "\n");
  for (const auto& [key, value] : manifest.extra) absl::StrAppend(&text, key, ": ", value, "\n");
  for (const auto& [name, values] : manifest.statistics) {
    absl::StrAppend(&text, "statistics ", name, ": ", values.size(), " numbers\n");
  }
  for (const ModelFile& file : manifest.files) {
    absl::StrAppend(&text, "file ", file.path, ": ", file.bytes, " bytes, hash ",
                    absl::Hex(file.hash, absl::kZeroPad16), "\n");
    if (!file.path.ends_with(".safetensors")) continue;
    SIMURGH_ASSIGN_OR_RETURN(const TensorFileReader reader,
                             TensorFileReader::Open(checkpoint.Path(file.path)));
    for (const TensorSpec& tensor : reader.tensors()) {
      absl::StrAppend(&text, "  ", tensor.name, " ", DTypeName(tensor.dtype), " [",
                      absl::StrJoin(tensor.shape, ", "), "]\n");
    }
    for (const auto& [key, value] : reader.metadata()) {
      absl::StrAppend(&text, "  ", key, ": ", value, "\n");
    }
  }
  for (const auto& [key, value] : manifest.config) {
    absl::StrAppend(&text, "config ", key, " = ", value, "\n");
  }
  return text;
}

}  // namespace simurgh
