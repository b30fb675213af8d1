#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "config/defaults.h"
#include "config/file.h"
#include "config/map_reader.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTables = 65'536;
constexpr std::chrono::milliseconds kLongestIdleTime = std::chrono::hours(24 * 365);
constexpr NumberRange kPoissonRate{kMinNumber, 100.0F, "number from 1.2e-38 to 100"};

void ReadInitializer(MapReader& in, InitializerConfig* init) {
  using Kind = InitializerConfig::Kind;
  in.Choice<Kind>("kind",
                  "distribution of initial weights, which depend on seed, table and id only; "
                  "`inverse_sqrt_dim`: uniform in ±1/√dim",
                  &init->kind,
                  {{"uniform", Kind::kUniform},
                   {"normal", Kind::kNormal},
                   {"truncated_normal", Kind::kTruncatedNormal},
                   {"gamma", Kind::kGamma},
                   {"poisson", Kind::kPoisson},
                   {"inverse_sqrt_dim", Kind::kInverseSqrtDim},
                   {"zero", Kind::kZero},
                   {"constant", Kind::kConstant}});
  {
    const auto when = in.When(init->kind == Kind::kUniform, "set kind: uniform");
    in.Number("low", "`uniform`: smallest weight", &init->low, kAnyNumber);
    in.Number("high", "`uniform`: exclusive upper bound of weights", &init->high, kAnyNumber);
  }
  {
    const auto when = in.When(init->kind == Kind::kNormal || init->kind == Kind::kTruncatedNormal,
                              "set kind: normal or truncated_normal");
    in.Number("mean", "`normal`, `truncated_normal`: mean", &init->mean, kAnyNumber);
    in.Number(
        "stddev",
        "`normal`, `truncated_normal`: standard deviation; the latter is truncated at two of them",
        &init->stddev, kNonNegative);
  }
  {
    const auto when = in.When(init->kind == Kind::kGamma, "set kind: gamma");
    in.Number("shape", "`gamma`: shape; the mean is `shape * scale`", &init->shape, kPositive);
    in.Number("scale", "`gamma`: scale", &init->scale, kPositive);
  }
  in.When(init->kind == Kind::kPoisson, "set kind: poisson")
      ->Number("rate", "`poisson`: mean and variance", &init->rate, kPoissonRate);
  in.When(init->kind == Kind::kConstant, "set kind: constant")
      ->Number("value", "`constant`: every weight", &init->value, kAnyNumber);
  if (init->kind == Kind::kUniform && init->low >= init->high) {
    in.Error(in.Has("high") ? "high" : "low",
             absl::StrCat("the interval from ", FormatNumber(init->low), " to ",
                          FormatNumber(init->high), " is empty"),
             "make low smaller than high");
  }
}

// The update rules of rows, with the learning rate that each has by default.
struct OptimizerKind {
  const char* name;
  SparseOptimizerConfig::Kind kind;
  float rate;
};
constexpr OptimizerKind kOptimizerKinds[] = {
    {"sgd", SparseOptimizerConfig::Kind::kSgd, 0.05F},
    {"adagrad", SparseOptimizerConfig::Kind::kAdagrad, 0.05F},
    {"adam", SparseOptimizerConfig::Kind::kAdam, 0.003F},
    {"ftrl", SparseOptimizerConfig::Kind::kFtrl, 0.1F},
    {"group_ftrl", SparseOptimizerConfig::Kind::kGroupFtrl, 0.1F}};

void ReadOptimizer(MapReader& in, SparseOptimizerConfig* optimizer) {
  using Kind = SparseOptimizerConfig::Kind;
  std::vector<std::pair<std::string, Kind>> kinds;
  for (const OptimizerKind& one : kOptimizerKinds) kinds.emplace_back(one.name, one.kind);
  in.Choice<Kind>("kind", "update rule of rows, see Optimizers", &optimizer->kind, kinds);
  const Kind kind = optimizer->kind;
  const bool ftrl = kind == Kind::kFtrl || kind == Kind::kGroupFtrl;
  const auto when_adaptive = [&] {
    return in.When(kind == Kind::kAdagrad || kind == Kind::kAdam, "set kind: adagrad or adam");
  };
  if (!in.describing()) {
    optimizer->learning_rate = DefaultRate(kind);
    optimizer->row_wise = kind == Kind::kAdam;
  }
  in.For(Scope::kTraining)
      ->Number("learning_rate",
               "step size before the schedule's factor; default by kind, see Optimizers",
               &optimizer->learning_rate, kPositive);
  {
    const auto when = in.When(kind == Kind::kSgd, "set kind: sgd");
    in.Number("momentum", "`sgd`: `v = momentum * v + g; w -= learning_rate * v`",
              &optimizer->momentum, kBelowOne);
    in.When(optimizer->momentum > 0, "set momentum above 0")
        ->Bool("nesterov", "`sgd` with momentum: steps along `g + momentum * v`",
               &optimizer->nesterov);
  }
  when_adaptive()->Number("epsilon", "`adagrad`: added under the root; `adam`: added to the root",
                          &optimizer->epsilon, kPositive);
  in.When(kind == Kind::kAdagrad || ftrl, "set kind: adagrad, ftrl or group_ftrl")
      ->Number("initial_accumulator",
               "`adagrad`, `ftrl`, `group_ftrl`: first value of the sum of squares `s`",
               &optimizer->initial_accumulator, kNonNegative);
  in.When(kind == Kind::kAdagrad, "set kind: adagrad")
      ->Number("accumulator_decay", "`adagrad`: factor of the old `s` in each update",
               &optimizer->accumulator_decay, kPositiveShare);
  when_adaptive()->Bool(
      "row_wise",
      "`adagrad`, `adam`: one mean of `g * g` per row instead of one per number; `adagrad`: false",
      &optimizer->row_wise);
  // Records a value that differs from the documented default, which an agreement would assume.
  if (!optimizer->row_wise) in.Record("row_wise", "false");
  {
    const auto when = in.When(kind == Kind::kAdam, "set kind: adam");
    in.Number("beta1", "`adam`: decay of the first moment", &optimizer->beta1, kBelowOne);
    in.Number("beta2", "`adam`: decay of the second moment", &optimizer->beta2, kBelowOne);
  }
  {
    const auto when = in.When(ftrl, "set kind: ftrl or group_ftrl");
    in.Number("beta",
              "`ftrl`, `group_ftrl`: the first step size is `learning_rate / (beta + "
              "sqrt(initial_accumulator))`",
              &optimizer->beta, kPositive);
    in.Number("l1", "`ftrl`, `group_ftrl`: L1 penalty per weight", &optimizer->l1, kNonNegative);
    in.Number("l2", "`ftrl`, `group_ftrl`: L2 penalty of all updates together, see Optimizers",
              &optimizer->l2, kNonNegative);
  }
  in.When(kind == Kind::kGroupFtrl, "set kind: group_ftrl")
      ->Number("group_l1",
               "`group_ftrl`: penalty per row, times `sqrt(dim)`; can make whole rows zero",
               &optimizer->group_l1, kNonNegative);
  in.Number("weight_decay", "factor of `w` added to the gradient of a row, see Optimizers",
            &optimizer->weight_decay, kNonNegative);
  in.Number("decoupled_weight_decay",
            "share `learning_rate * decoupled_weight_decay` of `w` subtracted per update (AdamW)",
            &optimizer->decoupled_weight_decay, kNonNegative);
  in.Number("max_gradient_norm", "norm to which longer gradients of a row are scaled; 0: no limit",
            &optimizer->max_gradient_norm, kNonNegative);
  in.For(Scope::kTraining)->Map("schedule", [&](MapReader& map) {
    ReadLearningRateSchedule(map, ftrl, &optimizer->schedule);
  });
}

void ReadAdmission(MapReader& in, AdmissionConfig* admission) {
  using Kind = AdmissionConfig::Kind;
  in.Choice<Kind>("kind",
                  "ids that get a row in a training lookup; other ids read as zeros and their "
                  "gradients are dropped",
                  &admission->kind,
                  {{"always", Kind::kAlways},
                   {"probability", Kind::kProbability},
                   {"occurrences", Kind::kOccurrences}});
  in.When(admission->kind == Kind::kProbability, "set kind: probability")
      ->Number("probability", "`probability`: share of ids, chosen by a hash of the id",
               &admission->probability, kPositiveShare);
  const auto when = in.When(admission->kind == Kind::kOccurrences, "set kind: occurrences");
  in.Integer("occurrences", "`occurrences`: number of the request that creates the row",
             &admission->occurrences, 2, 255);
  in.Integer("sketch_width",
             "`occurrences`: counters per hash function of a count-min sketch, see Admission",
             &admission->sketch_width, 16, 65'536);
}

void ReadEviction(MapReader& in, EvictionConfig* eviction) {
  constexpr uint32_t kMaxIdle = EvictionConfig::kMaxIdleSteps;
  in.Integer("idle_steps", "steps without a training lookup after which a row is evicted; 0: never",
             &eviction->idle_steps, 0, kMaxIdle);
  in.Duration("idle_time",
              "time without a training lookup after which a row is evicted, with a delay of up to "
              "1/64; 0s: never",
              &eviction->idle_time, std::chrono::milliseconds(0), kLongestIdleTime);
  in.Map("low_use", [&](MapReader& map) {
    map.Integer("below", "number of training lookups below which a row has low use; 0: rule off",
                &eviction->low_use.below, 0, EvictionConfig::kMaxUseCount);
    map.When(eviction->low_use.below > 0, "set below above 0")
        ->Integer("idle_steps", "idle steps after which a row of low use is evicted",
                  &eviction->low_use.idle_steps, 1, kMaxIdle);
  });
  in.Map("small_norm", [&](MapReader& map) {
    map.Number("below", "Euclidean norm of the weights below which a row is small; 0: rule off",
               &eviction->small_norm.below, kNonNegative);
    map.When(eviction->small_norm.below > 0, "set below above 0")
        ->Integer("idle_steps", "idle steps after which a small row is evicted",
                  &eviction->small_norm.idle_steps, 1, kMaxIdle);
  });
}

void ReadCapacity(MapReader& in, TableConfig* table) {
  const auto scope = in.For(Scope::kCluster);
  in.Integer("capacity_rows", "maximum number of rows over all servers", &table->capacity_rows, 1,
             uint64_t{1} << 40);
  in.Integer(
      "capacity_bytes",
      "maximum bytes of rows over all servers, instead of `capacity_rows`; 0: not used, see Memory",
      &table->capacity_bytes, 0, uint64_t{1} << 50);
  if (table->capacity_bytes > 0 && in.Has("capacity_rows")) {
    in.Error("capacity_bytes", "conflicts with capacity_rows", "give one of them");
  }
  in.Integer("memory_rows",
             "maximum number of rows in memory, over all servers; others are in "
             "`embedding_ps.cold_directory`; 0: no limit",
             &table->memory_rows, 0, uint64_t{1} << 40);
  in.Choice<WhenFull>(
      "when_full", "reaction to a new id at the capacity or the `memory_budget`, see Memory",
      &table->when_full,
      {{"evict", WhenFull::kEvict}, {"refuse", WhenFull::kRefuse}, {"stop", WhenFull::kStop}});
}

void ReadPrecision(MapReader& in, TableConfig* table) {
  in.Choice<RowPrecision>(
      "precision", "precision of stored weights, rounded stochastically; arithmetic is f32",
      &table->precision,
      {{"f32", RowPrecision::kF32}, {"bf16", RowPrecision::kBf16}, {"f16", RowPrecision::kF16}});
  in.Choice<RowPrecision>(
      "state_precision", "precision of stored optimizer vectors; single numbers per row stay f32",
      &table->state_precision, {{"f32", RowPrecision::kF32}, {"bf16", RowPrecision::kBf16}});
  constexpr float kMaxF16 = 65'504.0F;
  if (table->precision == RowPrecision::kF16 && table->weight_bound > kMaxF16) {
    in.Error("weight_bound",
             absl::StrCat(FormatNumber(table->weight_bound), " is above the largest f16"),
             "use at most 65504, or precision: bf16");
  }
}

// Reads the names of an entry's tables, `name` or `names`, and the paths of these keys.
void ReadTableNames(MapReader& in, std::vector<std::string>* names,
                    std::vector<std::string>* paths) {
  std::string name;
  std::vector<std::string> several;
  in.OneOf({"name", "names"});
  in.Name("name", "table name", &name, Need::kOptional, "required, or names");
  in.Texts("names", "names of several tables with equal settings, instead of `name`", &several,
           {1, kMaxTables}, Need::kOptional, "names of 1 to 63 letters, digits, '_' or '-'",
           [](const std::string& text) -> std::string {
             return IsName(text) ? "" : absl::StrCat("'", text, "' is not a name");
           });
  if (in.Has("name") == in.Has("names")) {
    in.Error("name", in.Has("name") ? "conflicts with names" : "missing",
             "give either name or names");
    return;
  }
  if (in.Has("name")) several = {name};
  for (size_t i = 0; i < several.size(); ++i) {
    names->push_back(several[i]);
    paths->push_back(in.PathOf(in.Has("name") ? "name" : absl::StrCat("names.", i)));
  }
}

}  // namespace

float DefaultRate(SparseOptimizerConfig::Kind kind) {
  return std::ranges::find(kOptimizerKinds, kind, &OptimizerKind::kind)->rate;
}

void ReadTables(MapReader& root, const std::string& folder, std::vector<TableConfig>* tables,
                std::vector<std::string>* paths) {
  const auto scope = root.For(Scope::kCluster | Scope::kModel);
  root.Maps(
      "tables", "tables, each with rows of one layout; every table needs a feature, see Features",
      {1, kMaxTables},
      [&](MapReader& in) {
        std::vector<std::string> names;
        TableConfig table = DefaultTable();
        ReadTableNames(in, &names, paths);
        in.Integer("dim", "numbers per row", &table.dim, 1, TableConfig::kMaxDim);
        ReadCapacity(in, &table);
        in.Number("weight_bound", "bound to whose range weights are clamped after each update",
                  &table.weight_bound, kPositive);
        in.For(Scope::kCluster)
            ->Choice<WhenNotFinite>("when_not_finite",
                                    "reaction to an update to numbers that are not finite; "
                                    "`reinitialize`: the row starts anew; `refuse`: it stays",
                                    &table.when_not_finite,
                                    {{"reinitialize", WhenNotFinite::kReinitialize},
                                     {"refuse", WhenNotFinite::kRefuse}});
        ReadPrecision(in, &table);
        in.Map("initializer", [&](MapReader& map) { ReadInitializer(map, &table.initializer); });
        std::string initial_rows;
        in.For(Scope::kCluster)
            ->Text("initial_rows",
                   "tensor file with the first rows of a new training; `{table}`: the table's "
                   "name; see Warm start",
                   &initial_rows, "path of a file");
        if (in.Has("initial_rows")) in.Record("initial_rows", FileName(initial_rows));
        bool has_rate = false;
        in.Map("optimizer", [&](MapReader& map) {
          ReadOptimizer(map, &table.optimizer);
          has_rate = map.Has("learning_rate");
        });
        {
          const auto alike = in.For(Scope::kCluster);
          in.Map("admission", [&](MapReader& map) { ReadAdmission(map, &table.admission); });
          in.Map("eviction", [&](MapReader& map) { ReadEviction(map, &table.eviction); });
        }
        for (const std::string& name : names) {
          table.name = name;
          if (has_rate) root.context()->tables_with_rate.insert(name);
          if (in.Has("initializer")) root.context()->tables_with_initializer.insert(name);
          if (!initial_rows.empty()) {
            table.initial_rows =
                PathIn(folder, absl::StrReplaceAll(initial_rows, {{"{table}", name}}));
          }
          tables->push_back(table);
        }
      },
      "one for each feature");
  root.context()->diagnostics.CheckDistinct(*tables, &TableConfig::name,
                                            [&](size_t i) { return (*paths)[i]; });
}

}  // namespace simurgh
