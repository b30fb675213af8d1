#include <map>

#include "absl/strings/str_cat.h"

#include "config/scalar.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxTables = 65'536;

void ReadInitializer(MapReader& in, InitializerConfig* init) {
  using Kind = InitializerConfig::Kind;
  in.Choice<Kind>("kind", &init->kind,
                  {{"uniform", Kind::kUniform},
                   {"normal", Kind::kNormal},
                   {"constant", Kind::kConstant},
                   {"inverse_sqrt_dim", Kind::kInverseSqrtDim}});
  in.Number("low", &init->low, kAnyNumber);
  in.Number("high", &init->high, kAnyNumber);
  in.Number("mean", &init->mean, kAnyNumber);
  in.Number("stddev", &init->stddev, kNonNegative);
  in.Number("value", &init->value, kAnyNumber);
  in.OnlyWith(init->kind == Kind::kUniform, "kind: uniform", {"low", "high"});
  in.OnlyWith(init->kind == Kind::kNormal, "kind: normal", {"mean", "stddev"});
  in.OnlyWith(init->kind == Kind::kConstant, "kind: constant", {"value"});
  if (init->low >= init->high) {
    in.Error(in.Has("high") ? "high" : "low",
             absl::StrCat("the interval from ", FormatFloat(init->low), " to ",
                          FormatFloat(init->high), " is empty"),
             "make low smaller than high");
  }
}

void ReadOptimizer(MapReader& in, SparseOptimizerConfig* optimizer) {
  using Kind = SparseOptimizerConfig::Kind;
  in.Choice<Kind>("kind", &optimizer->kind, {{"sgd", Kind::kSgd}, {"adagrad", Kind::kAdagrad}});
  in.Number("learning_rate", &optimizer->learning_rate, kPositive);
  in.Number("epsilon", &optimizer->epsilon, kPositive);
  in.Number("initial_accumulator", &optimizer->initial_accumulator, kNonNegative);
  in.Number("accumulator_decay", &optimizer->accumulator_decay, kPositiveShare);
  in.Bool("row_wise", &optimizer->row_wise);
  in.OnlyWith(optimizer->kind == Kind::kAdagrad, "kind: adagrad",
              {"epsilon", "initial_accumulator", "accumulator_decay", "row_wise"});
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
    in.Integer("capacity_rows", &table.capacity_rows, 1, uint64_t{1} << 40);
    in.Number("weight_bound", &table.weight_bound, kPositive);
    in.Map("initializer", [&](MapReader& map) { ReadInitializer(map, &table.initializer); });
    in.Map("optimizer", [&](MapReader& map) { ReadOptimizer(map, &table.optimizer); });
    for (const std::string& name : names) {
      table.name = name;
      tables->push_back(table);
    }
  });
  CheckNames(*tables, *paths, &root.context()->diagnostics);
}

}  // namespace simurgh
