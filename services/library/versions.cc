#include "services/library/versions.h"

#include <algorithm>

#include "model/model_directory.h"

namespace simurgh {

StatusOr<VersionsView> VersionsView::Read(const std::string& path, uint64_t used,
                                          const std::vector<ServedVersions::Refused>& refused) {
  ModelDirectory model(path);
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> steps, model.Steps());
  SIMURGH_ASSIGN_OR_RETURN(const std::optional<uint64_t> best, model.BestStep());
  // A file that is damaged is a problem of followers, which they tell.
  const StatusOr<std::optional<uint64_t>> pinned = model.PinnedStep();
  VersionsView view;
  for (const uint64_t step : steps) {
    const StatusOr<Checkpoint> checkpoint = model.Open(step);
    if (absl::IsNotFound(checkpoint.status())) continue;  // A training has removed it meanwhile.
    simurgh_checkpoint version = {.step = step,
                                  .is_used = step == used ? 1U : 0U,
                                  .is_best = step == best ? 1U : 0U,
                                  .is_pinned = pinned.ok() && step == *pinned ? 1U : 0U};
    std::string problem(checkpoint.status().message());
    if (checkpoint.ok()) {
      const Manifest& manifest = checkpoint->manifest;
      version.seconds = manifest.step_time;
      version.is_delta = manifest.parent ? 1U : 0U;
      version.parent = manifest.parent ? manifest.parent->step : 0;
      const auto found = std::ranges::find(refused, step, &ServedVersions::Refused::step);
      if (found != refused.end()) problem = found->reason;
    }
    view.versions_.push_back(version);
    view.problems_.push_back(std::move(problem));
  }
  for (size_t i = 0; i < view.versions_.size(); ++i) {
    if (!view.problems_[i].empty()) view.versions_[i].problem = view.problems_[i].c_str();
  }
  return view;
}

}  // namespace simurgh
