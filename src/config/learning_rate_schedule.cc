#include "config/learning_rate_schedule.h"

namespace simurgh {
namespace {

constexpr uint64_t kMaxSteps = uint64_t{1} << 40;

}  // namespace

void ReadLearningRateSchedule(MapReader& in, bool ftrl, LearningRateSchedule* schedule) {
  using Kind = LearningRateSchedule::Kind;
  in.Choice<Kind>("kind", &schedule->kind,
                  {{"constant", Kind::kConstant},
                   {"linear", Kind::kLinear},
                   {"exponential", Kind::kExponential},
                   {"cosine", Kind::kCosine}});
  in.Integer("warmup_steps", &schedule->warmup_steps, 0, kMaxSteps);
  in.Integer("decay_steps", &schedule->decay_steps, 1, kMaxSteps);
  in.Number("decay_factor", &schedule->decay_factor, kPositiveShare);
  in.Number("end_factor", &schedule->end_factor, kShare);
  const bool decays = schedule->kind != Kind::kConstant;
  in.OnlyWith(decays, "kind: linear, exponential or cosine", {"decay_steps", "end_factor"});
  in.OnlyWith(schedule->kind == Kind::kExponential, "kind: exponential", {"decay_factor"});
  if (ftrl && decays && schedule->end_factor == 0) {
    in.Error("end_factor", "ftrl and group_ftrl divide by the learning rate",
             "give an end_factor above 0");
  }
}

}  // namespace simurgh
