#include "config/sections.h"

namespace simurgh {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

void ReadDenseOptimizer(MapReader& in, DenseOptimizerConfig* optimizer) {
  using Kind = DenseOptimizerConfig::Kind;
  in.Choice<Kind>("kind", &optimizer->kind, {{"sgd", Kind::kSgd}, {"adam", Kind::kAdam}});
  in.Number("learning_rate", &optimizer->learning_rate, kPositive);
  in.Number("beta1", &optimizer->beta1, kBelowOne);
  in.Number("beta2", &optimizer->beta2, kBelowOne);
  in.Number("epsilon", &optimizer->epsilon, kPositive);
  in.OnlyWith(optimizer->kind == Kind::kAdam, "kind: adam", {"beta1", "beta2", "epsilon"});
}

}  // namespace

void ReadTraining(MapReader& root, TrainingConfig* training) {
  root.Map("training", [&](MapReader& in) {
    in.Integer("batch_size", &training->batch_size, 1, 65'535);
    in.Integer("passes", &training->passes, 1, 1'000'000);
    in.Bool("drop_last", &training->drop_last);
    in.Number("keep_negatives", &training->keep_negatives, kPositiveShare);
    in.Integer("staleness", &training->staleness, 1, 64);
    in.Bool("reproducible", &training->reproducible);
    in.Map("dense_optimizer",
           [&](MapReader& map) { ReadDenseOptimizer(map, &training->dense_optimizer); });
    in.Integer("evaluate_every_steps", &training->evaluate_every_steps, 0, uint64_t{1} << 40);
    in.Integer("max_steps", &training->max_steps, 0, uint64_t{1} << 40);
    in.Duration("progress_interval", &training->progress_interval, milliseconds(10), minutes(60));
    in.Duration("retry_deadline", &training->retry_deadline, milliseconds(1), minutes(60));
    in.Integer("loader_queue_batches", &training->loader_queue_batches, 1, 65'536);
  });
}

}  // namespace simurgh
