#include "config/learning_rate_schedule.h"

namespace simurgh {
void ReadLearningRateSchedule(MapReader& in, bool ftrl, LearningRateSchedule* schedule) {
  using Kind = LearningRateSchedule::Kind;
  constexpr uint64_t kMaxSteps = uint64_t{1} << 40;
  in.Choice<Kind>("kind", "course of the learning rate after the warm-up, see Schedules",
                  &schedule->kind,
                  {{"constant", Kind::kConstant},
                   {"linear", Kind::kLinear},
                   {"exponential", Kind::kExponential},
                   {"cosine", Kind::kCosine}});
  in.Integer("warmup_steps", "number of first steps over which the rate rises linearly",
             &schedule->warmup_steps, 0, kMaxSteps);
  in.Integer("decay_steps", "length of the decay in steps; not with `constant`",
             &schedule->decay_steps, 1, kMaxSteps);
  in.Number("decay_factor", "`exponential`: factor per `decay_steps`", &schedule->decay_factor,
            kPositiveShare);
  in.Number("end_factor",
            "final share of the rate; not with `constant`; above 0 for `ftrl`, `group_ftrl`",
            &schedule->end_factor, kShare);
  const bool decays = schedule->kind != Kind::kConstant;
  in.OnlyWith(decays, "set kind: linear, exponential or cosine", {"decay_steps", "end_factor"});
  in.OnlyWith(schedule->kind == Kind::kExponential, "set kind: exponential", {"decay_factor"});
  if (ftrl && decays && schedule->end_factor == 0) {
    in.Error("end_factor", "ftrl and group_ftrl divide by the learning rate",
             "give an end_factor above 0");
  }
}

}  // namespace simurgh
