#include <chrono>
#include <map>

#include "absl/strings/str_cat.h"

#include "config/learning_rate_schedule.h"
#include "config/scalar.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTables = 65'536;
constexpr std::chrono::milliseconds kLongestIdleTime = std::chrono::hours(24 * 365);
constexpr NumberRange kPoissonRate{kMinFloat, 100.0F, "number above 0, at most 100"};

void ReadInitializer(MapReader& in, InitializerConfig* init) {
  using Kind = InitializerConfig::Kind;
  in.Choice<Kind>("kind", &init->kind,
                  {{"uniform", Kind::kUniform},
                   {"normal", Kind::kNormal},
                   {"truncated_normal", Kind::kTruncatedNormal},
                   {"gamma", Kind::kGamma},
                   {"poisson", Kind::kPoisson},
                   {"inverse_sqrt_dim", Kind::kInverseSqrtDim},
                   {"zero", Kind::kZero},
                   {"constant", Kind::kConstant}});
  in.Number("low", &init->low, kAnyNumber);
  in.Number("high", &init->high, kAnyNumber);
  in.Number("mean", &init->mean, kAnyNumber);
  in.Number("stddev", &init->stddev, kNonNegative);
  in.Number("shape", &init->shape, kPositive);
  in.Number("scale", &init->scale, kPositive);
  in.Number("rate", &init->rate, kPoissonRate);
  in.Number("value", &init->value, kAnyNumber);
  in.OnlyWith(init->kind == Kind::kUniform, "kind: uniform", {"low", "high"});
  in.OnlyWith(init->kind == Kind::kNormal || init->kind == Kind::kTruncatedNormal,
              "kind: normal or truncated_normal", {"mean", "stddev"});
  in.OnlyWith(init->kind == Kind::kGamma, "kind: gamma", {"shape", "scale"});
  in.OnlyWith(init->kind == Kind::kPoisson, "kind: poisson", {"rate"});
  in.OnlyWith(init->kind == Kind::kConstant, "kind: constant", {"value"});
  if (init->low >= init->high) {
    in.Error(in.Has("high") ? "high" : "low",
             absl::StrCat("the interval from ", FormatNumber(init->low), " to ",
                          FormatNumber(init->high), " is empty"),
             "make low smaller than high");
  }
}

void CheckOptimizerKeys(MapReader& in, const SparseOptimizerConfig& optimizer) {
  using Kind = SparseOptimizerConfig::Kind;
  const Kind kind = optimizer.kind;
  const bool adaptive = kind == Kind::kAdagrad || kind == Kind::kAdam;
  const bool ftrl = kind == Kind::kFtrl || kind == Kind::kGroupFtrl;
  in.OnlyWith(kind == Kind::kSgd, "kind: sgd", {"momentum", "nesterov"});
  in.OnlyWith(optimizer.momentum > 0, "momentum above 0", {"nesterov"});
  in.OnlyWith(adaptive, "kind: adagrad or adam", {"epsilon", "row_wise"});
  in.OnlyWith(kind == Kind::kAdagrad, "kind: adagrad", {"accumulator_decay"});
  in.OnlyWith(kind == Kind::kAdagrad || ftrl, "kind: adagrad, ftrl or group_ftrl",
              {"initial_accumulator"});
  in.OnlyWith(kind == Kind::kAdam, "kind: adam", {"beta1", "beta2"});
  in.OnlyWith(ftrl, "kind: ftrl or group_ftrl", {"beta", "l1", "l2"});
  in.OnlyWith(kind == Kind::kGroupFtrl, "kind: group_ftrl", {"group_l1"});
  in.OnlyWith(!ftrl, "kind: sgd, adagrad or adam", {"weight_decay", "decoupled_weight_decay"});
}

void ReadOptimizer(MapReader& in, SparseOptimizerConfig* optimizer) {
  using Kind = SparseOptimizerConfig::Kind;
  in.Choice<Kind>("kind", &optimizer->kind,
                  {{"sgd", Kind::kSgd},
                   {"adagrad", Kind::kAdagrad},
                   {"adam", Kind::kAdam},
                   {"ftrl", Kind::kFtrl},
                   {"group_ftrl", Kind::kGroupFtrl}});
  in.Number("learning_rate", &optimizer->learning_rate, kPositive);
  in.Number("momentum", &optimizer->momentum, kBelowOne);
  in.Bool("nesterov", &optimizer->nesterov);
  in.Number("epsilon", &optimizer->epsilon, kPositive);
  in.Number("initial_accumulator", &optimizer->initial_accumulator, kNonNegative);
  in.Number("accumulator_decay", &optimizer->accumulator_decay, kPositiveShare);
  in.Bool("row_wise", &optimizer->row_wise);
  in.Number("beta1", &optimizer->beta1, kBelowOne);
  in.Number("beta2", &optimizer->beta2, kBelowOne);
  in.Number("beta", &optimizer->beta, kPositive);
  in.Number("l1", &optimizer->l1, kNonNegative);
  in.Number("l2", &optimizer->l2, kNonNegative);
  in.Number("group_l1", &optimizer->group_l1, kNonNegative);
  in.Number("weight_decay", &optimizer->weight_decay, kNonNegative);
  in.Number("decoupled_weight_decay", &optimizer->decoupled_weight_decay, kNonNegative);
  in.Number("max_gradient_norm", &optimizer->max_gradient_norm, kNonNegative);
  CheckOptimizerKeys(in, *optimizer);
  const bool ftrl = optimizer->kind == Kind::kFtrl || optimizer->kind == Kind::kGroupFtrl;
  in.Map("schedule",
         [&](MapReader& map) { ReadLearningRateSchedule(map, ftrl, &optimizer->schedule); });
}

void ReadAdmission(MapReader& in, AdmissionConfig* admission) {
  using Kind = AdmissionConfig::Kind;
  in.Choice<Kind>("kind", &admission->kind,
                  {{"always", Kind::kAlways},
                   {"probability", Kind::kProbability},
                   {"occurrences", Kind::kOccurrences}});
  in.Number("probability", &admission->probability, kPositiveShare);
  in.Integer("occurrences", &admission->occurrences, 2, 255);
  in.Integer("sketch_width", &admission->sketch_width, 16, 65'536);
  in.OnlyWith(admission->kind == Kind::kProbability, "kind: probability", {"probability"});
  in.OnlyWith(admission->kind == Kind::kOccurrences, "kind: occurrences",
              {"occurrences", "sketch_width"});
}

void ReadEviction(MapReader& in, EvictionConfig* eviction) {
  constexpr uint32_t kMaxIdle = EvictionConfig::kMaxIdleSteps;
  in.Integer("idle_steps", &eviction->idle_steps, 0, kMaxIdle);
  in.Duration("idle_time", &eviction->idle_time, std::chrono::milliseconds(0), kLongestIdleTime);
  in.Map("low_use", [&](MapReader& map) {
    map.Integer("below", &eviction->low_use.below, 0, 65'535);
    map.Integer("idle_steps", &eviction->low_use.idle_steps, 1, kMaxIdle);
    map.OnlyWith(eviction->low_use.below > 0, "below above 0", {"idle_steps"});
  });
  in.Map("small_norm", [&](MapReader& map) {
    map.Number("below", &eviction->small_norm.below, kNonNegative);
    map.Integer("idle_steps", &eviction->small_norm.idle_steps, 1, kMaxIdle);
    map.OnlyWith(eviction->small_norm.below > 0, "below above 0", {"idle_steps"});
  });
}

void ReadCapacity(MapReader& in, TableConfig* table) {
  in.Integer("capacity_rows", &table->capacity_rows, 1, uint64_t{1} << 40);
  in.Integer("capacity_bytes", &table->capacity_bytes, 0, uint64_t{1} << 50);
  if (table->capacity_bytes > 0 && in.Has("capacity_rows")) {
    in.Error("capacity_bytes", "stands beside capacity_rows", "give either of them");
  }
  in.Choice<WhenFull>(
      "when_full", &table->when_full,
      {{"evict", WhenFull::kEvict}, {"refuse", WhenFull::kRefuse}, {"stop", WhenFull::kStop}});
}

void ReadPrecision(MapReader& in, TableConfig* table) {
  in.Choice<RowPrecision>(
      "precision", &table->precision,
      {{"f32", RowPrecision::kF32}, {"bf16", RowPrecision::kBf16}, {"f16", RowPrecision::kF16}});
  in.Choice<RowPrecision>("state_precision", &table->state_precision,
                          {{"f32", RowPrecision::kF32}, {"bf16", RowPrecision::kBf16}});
  constexpr float kMaxF16 = 65'504.0F;
  if (table->precision == RowPrecision::kF16 && table->weight_bound > kMaxF16) {
    in.Error("weight_bound", absl::StrCat(FormatNumber(table->weight_bound), " is no f16"),
             "lower it to 65504, or take precision: bf16");
  }
}

// The names of an entry's tables, with the keys they stand at: `name`, or those in `names`.
void ReadTableNames(MapReader& in, std::vector<std::string>* names,
                    std::vector<std::string>* paths) {
  std::string name;
  std::vector<std::string> several;
  in.Name("name", &name, Need::kOptional, "required, or names");
  in.Texts("names", &several, {1, kMaxTables}, Need::kOptional, "table names",
           [](const std::string& text) -> std::string {
             return IsName(text) ? "" : absl::StrCat("'", text, "' is no name");
           });
  if (in.Has("name") == in.Has("names")) {
    in.Error("name", in.Has("name") ? "stands beside names" : "missing",
             "give either name or names");
    return;
  }
  if (in.Has("name")) several = {name};
  for (size_t i = 0; i < several.size(); ++i) {
    names->push_back(several[i]);
    paths->push_back(in.PathOf(in.Has("name") ? "name" : absl::StrCat("names.", i)));
  }
}

void CheckNames(const std::vector<TableConfig>& tables, const std::vector<std::string>& paths,
                Diagnostics* diagnostics) {
  std::map<std::string, std::string> taken;
  for (size_t i = 0; i < tables.size(); ++i) {
    const auto [entry, is_new] = taken.emplace(tables[i].name, paths[i]);
    if (is_new) continue;
    diagnostics->Report(paths[i],
                        absl::StrCat("'", tables[i].name, "' is taken by ", entry->second),
                        "give every table a name of its own");
  }
}

}  // namespace

void ReadTables(MapReader& root, std::vector<TableConfig>* tables,
                std::vector<std::string>* paths) {
  root.Maps("tables", {1, kMaxTables}, [&](MapReader& in) {
    std::vector<std::string> names;
    TableConfig table;
    ReadTableNames(in, &names, paths);
    in.Integer("dim", &table.dim, 1, 1'024);
    ReadCapacity(in, &table);
    in.Number("weight_bound", &table.weight_bound, kPositive);
    ReadPrecision(in, &table);
    in.Map("initializer", [&](MapReader& map) { ReadInitializer(map, &table.initializer); });
    in.Map("optimizer", [&](MapReader& map) { ReadOptimizer(map, &table.optimizer); });
    in.Map("admission", [&](MapReader& map) { ReadAdmission(map, &table.admission); });
    in.Map("eviction", [&](MapReader& map) { ReadEviction(map, &table.eviction); });
    for (const std::string& name : names) {
      table.name = name;
      tables->push_back(table);
    }
  });
  CheckNames(*tables, *paths, &root.context()->diagnostics);
}

}  // namespace simurgh
