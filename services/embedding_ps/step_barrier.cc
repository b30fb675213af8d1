#include "services/embedding_ps/step_barrier.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"

#include "base/check.h"
#include "base/step_id.h"
#include "table/encoded_matrix.h"

namespace simurgh {
namespace {

constexpr char kStops[] = "rows: the server is stopping";

// Partial sums of one table.
struct Sums {
  ReducedPush::TableRows rows;
  absl::flat_hash_map<uint64_t, size_t> places;  // Id -> row.
  float learning_rate = 0;
  size_t dim = 0;
};

void AddGroup(const PushGroup& group, Sums& sums) {
  std::vector<float> gradient(sums.dim);
  for (size_t i = 0; i < group.ids.size(); ++i) {
    WidenRow(group.gradients.precision(), group.gradients.row(i), gradient);
    const auto [place, is_new] = sums.places.try_emplace(group.ids[i], sums.rows.ids.size());
    if (is_new) {
      sums.rows.ids.push_back(group.ids[i]);
      sums.rows.gradients.insert(sums.rows.gradients.end(), gradient.begin(), gradient.end());
      continue;
    }
    float* sum = sums.rows.gradients.data() + place->second * sums.dim;
    for (size_t d = 0; d < sums.dim; ++d) sum[d] += gradient[d];
  }
}

}  // namespace

StepBarrier::Run& StepBarrier::FindOrAdd(uint64_t run) {
  const auto found = std::ranges::find(runs_, run, &Run::run);
  if (found != runs_.end()) {
    runs_.splice(runs_.begin(), runs_, found);
    return runs_.front();
  }
  if (runs_.size() == kMaxRuns) {
    Abort(runs_.back(), "rows: newer runs have replaced this run");
    runs_.pop_back();
  }
  return runs_.emplace_front(Run{.run = run, .steps = {}});
}

void StepBarrier::BeginAt(uint64_t run, uint64_t step) {
  for (Run& other : runs_) {
    if (IsSuperseded(other.run, run)) Abort(other, "rows: a newer start has replaced this run");
  }
  FindOrAdd(run).next_step = step;
}

void StepBarrier::Abort(Run& run, const char* reason) {
  for (auto& [number, step] : run.steps) {
    for (auto& push : step) {
      if (push) push->end(absl::AbortedError(reason), {});
    }
  }
  run.steps.clear();
}

std::vector<std::vector<HeldPush>> StepBarrier::Add(HeldPush push) {
  const StepId& step_id = push.step_id;
  SIMURGH_CHECK_LT(step_id.rank, step_id.ranks);
  std::vector<std::vector<HeldPush>> ready;
  if (closed_) {
    push.end(absl::AbortedError(kStops), {});
    return ready;
  }
  Run& run = FindOrAdd(step_id.run);
  if (step_id.step < run.next_step) {
    ready.emplace_back().push_back(std::move(push));
    return ready;
  }
  Step& step = run.steps[step_id.step];
  if (step.empty()) step.resize(step_id.ranks);
  if (step.size() != step_id.ranks) {
    push.end(absl::InvalidArgumentError("rows: pushes of one run differ in the number of ranks"),
             {});
    return ready;
  }
  std::optional<HeldPush>& place = step[step_id.rank];
  if (place) place->end(absl::AbortedError("rows: a repetition of the push replaced it"), {});
  place = std::move(push);

  for (auto next = run.steps.begin(); next != run.steps.end() && next->first == run.next_step;
       next = run.steps.erase(next)) {
    if (!std::ranges::all_of(next->second, [](const auto& one) { return one.has_value(); })) break;
    ++run.next_step;
    std::vector<HeldPush>& pushes = ready.emplace_back();
    for (auto& one : next->second) pushes.push_back(*std::move(one));
  }
  return ready;
}

void StepBarrier::TimeOut(const StepId& step_id) {
  const auto run = std::ranges::find(runs_, step_id.run, &Run::run);
  if (run == runs_.end()) return;
  const auto step = run->steps.find(step_id.step);
  if (step == run->steps.end() || step_id.rank >= step->second.size()) return;
  std::optional<HeldPush>& place = step->second[step_id.rank];
  if (!place) return;
  place->end(absl::DeadlineExceededError(
                 "rows: timeout while waiting for the other ranks' pushes of the step"),
             {});
  place.reset();
}

void StepBarrier::Close() {
  closed_ = true;
  for (Run& run : runs_) Abort(run, kStops);
}

std::shared_ptr<const ReducedPush> ReducePushes(std::span<const HeldPush> pushes) {
  std::map<uint32_t, Sums> tables;
  for (const HeldPush& push : pushes) {
    for (const PushGroup& group : push.groups) {
      const auto [table, is_new] = tables.try_emplace(group.table);
      if (is_new) {
        table->second.learning_rate = group.learning_rate;
        table->second.dim = group.gradients.columns();
      }
      AddGroup(group, table->second);
    }
  }
  auto summed = std::make_shared<ReducedPush>();
  summed->tables.reserve(tables.size());
  for (auto& [table, sums] : tables) {
    const ReducedPush::TableRows& rows = summed->tables.emplace_back(std::move(sums.rows));
    summed->groups.push_back({.table = table,
                              .learning_rate = sums.learning_rate,
                              .ids = rows.ids,
                              .gradients = {rows.gradients.data(), rows.ids.size(), sums.dim}});
  }
  return summed;
}

}  // namespace simurgh
