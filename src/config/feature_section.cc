#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"

#include "config/defaults.h"
#include "config/sections.h"

namespace simurgh {
namespace {

constexpr size_t kMaxCrossed = 8;
constexpr uint32_t kMaxRounds = 8;
constexpr uint64_t kMaxBuckets = uint64_t{1} << 40;
// Width of all embeddings together: the widest input of a linear layer.
constexpr size_t kMaxEmbeddingWidth = 65'536;

void ReadHashStack(MapReader& in, HashStackConfig* hash_stack) {
  in.Integer("rounds", "hash functions, each with separate rows; 0: off", &hash_stack->rounds, 0,
             kMaxRounds);
  in.Integer("buckets",
             "rows per hash function; `rounds * buckets` is at most the table's capacity",
             &hash_stack->buckets, 0, kMaxBuckets);
}

void ReadPooling(MapReader& in, FeatureConfig* feature) {
  in.Choice<Pooling>("pooling", "function that combines the rows of a sample's ids, see Pooling",
                     &feature->pooling, {std::begin(kPoolings), std::end(kPoolings)});
  const ProcessingConfig& processing = feature->processing;
  in.When(feature->pooling == Pooling::kRaw && !processing.pad, "set pooling: raw without pad")
      ->Bool("mask",
             "`raw` without `pad`: whether `dense` gets `max_length` columns that mark filled "
             "places",
             &feature->mask);
  in.When(feature->pooling == Pooling::kWeightedSum, "set pooling: weighted_sum")
      ->When(
          feature->columns.empty() && processing.quantiles == 0 && processing.plugin.path.empty(),
          "use one column without quantiles or plugin")
      ->Character("weight_separator",
                  "`weighted_sum`: character before the weight within a value, see Pooling",
                  &feature->weight_separator);
  if (feature->pooling == Pooling::kRaw && feature->processing.max_length == 0) {
    in.Error("pooling", "raw requires max_length", "give max_length");
  }
  if (feature->pooling == Pooling::kMax && feature->hash_stack.rounds > 1) {
    in.Error("pooling", "max does not support several rows per id (hash_stack.rounds)",
             "choose another pooling, or leave the hash stack out");
  }
}

void LinkTable(const std::vector<std::string>& names, ClusterConfig* config, FeatureConfig* feature,
               Diagnostics* diagnostics) {
  const std::string& path = feature->key;
  if (!diagnostics->CheckKnown(absl::StrCat(path, ".table"), "table", feature->table, names))
    return;
  feature->table_index =
      static_cast<uint32_t>(std::ranges::find(names, feature->table) - names.begin());
  if ((feature->hash_stack.rounds == 0) != (feature->hash_stack.buckets == 0)) {
    diagnostics->Report(absl::StrCat(path, ".hash_stack"),
                        "one of rounds and buckets is 0, the other is not",
                        "give both, or neither to switch the hash stack off");
  }
  const uint64_t rows = feature->hash_stack.rounds * feature->hash_stack.buckets;
  const TableConfig& table = config->tables[feature->table_index];
  const uint64_t capacity = table.capacity_rows;
  if (table.capacity_bytes == 0 && rows > capacity) {
    diagnostics->Report(
        absl::StrCat(path, ".hash_stack"),
        absl::StrCat("needs ", rows, " rows, table '", feature->table, "' holds ", capacity),
        "lower rounds or buckets, or raise the table's capacity_rows");
  }
}

// Makes the values of features that read index:value pairs their weights.
void SetWeights(std::vector<FeatureConfig>& features) {
  for (FeatureConfig& feature : features) {
    if (!feature.processing.plugin.path.empty()) continue;  // It gets pairs as texts.
    feature.weight_separator = ':';
    if (feature.pooling == Pooling::kSum) feature.pooling = Pooling::kWeightedSum;
  }
}

}  // namespace

void ReadFeatures(MapReader& root, const std::string& folder,
                  std::vector<FeatureConfig>* features) {
  const auto scope = root.For(Scope::kCluster | Scope::kModel);
  root.Maps(
      "features",
      "features of ids, in the order of the embeddings in the model's input, see Features",
      {1, kMaxFeatures},
      [&](MapReader& in) {
        FeatureConfig feature{.key = absl::StrCat("features.", features->size())};
        in.Name("name", "feature name", &feature.name, Need::kRequired);
        feature.column = feature.name;
        feature.table = feature.name;
        in.Name("column",
                "source column, `id` or `dense` (read as text); several features may share one",
                &feature.column, Need::kOptional, "the name");
        in.Texts("columns",
                 "source columns of a cross or of a plug-in, instead of `column`, see Crosses",
                 &feature.columns, {2, kMaxCrossed}, Need::kOptional, "names of columns");
        in.OnlyWith(feature.columns.empty(), "leave out columns", {"column"});
        in.Name("table", "table of the rows; several features may share one", &feature.table,
                Need::kOptional, "the name");
        ReadProcessing(in, folder, feature.columns.size() > 1, &feature.processing);
        in.Map("hash_stack", [&](MapReader& map) { ReadHashStack(map, &feature.hash_stack); });
        ReadPooling(in, &feature);
        features->push_back(feature);
      },
      "one for each `id` column");
  root.context()->diagnostics.CheckDistinct(*features, &FeatureConfig::name, [](size_t i) {
    return absl::StrCat("features.", i, ".name");
  });
}

// Returns features of the ranges of each column of numbers. A network without ids uses them, since
// it needs embeddings.
std::vector<FeatureConfig> RangesOf(const std::vector<ColumnConfig>& columns) {
  constexpr uint32_t kQuantiles = 16;
  constexpr size_t kMaxLength = 57;  // Longest column name to which "_range" can be added.
  std::vector<FeatureConfig> added;
  for (size_t i = 0; i < columns.size() && added.size() < kMaxFeatures; ++i) {
    const ColumnConfig& column = columns[i];
    if (column.kind != ColumnConfig::Kind::kDense || column.name.size() > kMaxLength) continue;
    const std::string name = column.name + "_range";
    added.push_back({.name = name,
                     .column = column.name,
                     .table = name,
                     .processing = {.quantiles = kQuantiles},
                     .key = absl::StrCat("data.columns.", i)});
  }
  return added;
}

void AddColumnFeatures(ReadContext* context, ClusterConfig* config) {
  const std::vector<ColumnConfig> columns = ColumnsOf(config->data);
  std::vector<FeatureConfig>& features = config->features;
  std::set<std::string> taken;  // Columns that are read, and names of features.
  for (const FeatureConfig& feature : features) {
    const std::vector<std::string> sources = feature.sources();
    taken.insert(sources.begin(), sources.end());
    taken.insert(feature.name);
  }
  for (const DerivedConfig& derived : config->data.derived) {
    taken.insert(derived.columns.begin(), derived.columns.end());
  }
  // Columns of formats that have their own cannot be skipped, so features choose among them.
  const bool are_fixed =
      config->data.format == DataConfig::Format::kCriteo || HasPairs(config->data);
  const bool adds = !are_fixed || features.empty();
  std::vector<FeatureConfig> added;
  std::vector<std::string> names;
  for (size_t i = 0; adds && i < columns.size(); ++i) {
    const std::string& name = columns[i].name;
    if (columns[i].kind != ColumnConfig::Kind::kId || taken.contains(name)) continue;
    names.push_back(name);
    added.push_back(
        {.name = name,
         .column = name,
         .table = name,
         .key = are_fixed ? std::string("data.format") : absl::StrCat("data.columns.", i)});
  }
  if (added.empty() && features.empty() && !are_fixed && !config->data.streams()) {
    added = RangesOf(columns);
    for (const FeatureConfig& feature : added) names.push_back(feature.name);
  }
  const size_t count = added.size() + features.size();
  if (count == 0) {
    context->diagnostics.Report(
        "features", "no column is an id, and no feature reads numbers",
        "give a column kind: id, or a dense column a feature, such as "
        "`features: [{name: age_range, column: age, boundaries: [20, 40, 60]}]`");
  }
  if (count > kMaxFeatures) {
    return context->diagnostics.Report(
        "features", absl::StrCat(count, " features, one for each id column"),
        absl::StrCat("use at most ", kMaxFeatures, ", and kind: skip for other columns"));
  }
  features.insert(features.begin(), added.begin(), added.end());
  if (HasPairs(config->data)) SetWeights(features);
  if (!names.empty()) context->settings["features, of columns"] = RecordedText(TextsText(names));
}

void AddTables(ReadContext* context, ClusterConfig* config, std::vector<std::string>* paths) {
  std::set<std::string> known;
  for (const TableConfig& table : config->tables) known.insert(table.name);
  std::vector<std::string> names;
  for (const FeatureConfig& feature : config->features) {
    // A table name that differs from the feature's was given, so a missing table is an error.
    if (feature.table != feature.name || !known.insert(feature.table).second) continue;
    names.push_back(feature.table);
    TableConfig& table = config->tables.emplace_back(DefaultTable());
    table.name = feature.table;
    paths->push_back(feature.key);
  }
  if (!names.empty()) context->settings["tables, of features"] = RecordedText(TextsText(names));
}

size_t VectorFeatures(const ClusterConfig& config) {
  std::map<std::string, uint32_t> dims;
  for (const TableConfig& table : config.tables) dims[table.name] = table.dim;
  const auto count = static_cast<size_t>(std::ranges::count_if(
      config.features, [&](const FeatureConfig& feature) { return dims[feature.table] > 1; }));
  return count == 0 ? config.features.size() : count;
}

void ScaleTables(const ReadContext& context, ClusterConfig* config) {
  const size_t count = VectorFeatures(*config);
  const auto deviation = static_cast<float>(DeviationFactor(count));
  for (TableConfig& table : config->tables) {
    if (!context.tables_with_rate.contains(table.name)) {
      table.optimizer.learning_rate *= static_cast<float>(RateFactor(count));
    }
    if (context.tables_with_initializer.contains(table.name)) continue;
    table.initializer.low *= deviation;
    table.initializer.high *= deviation;
  }
}

void LinkFeatures(const std::vector<std::string>& table_paths, ClusterConfig* config,
                  Diagnostics* diagnostics) {
  std::vector<std::string> names;
  for (const TableConfig& table : config->tables) names.push_back(table.name);
  for (FeatureConfig& feature : config->features) LinkTable(names, config, &feature, diagnostics);
  if (!diagnostics->ok()) return;
  std::vector<bool> used(config->tables.size(), false);
  for (const FeatureConfig& feature : config->features) used[feature.table_index] = true;
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    diagnostics->Report(table_paths[i],
                        absl::StrCat("no feature uses table '", config->tables[i].name, "'"),
                        "remove the table, or name it in a feature");
  }
  if (config->embedding_width() > kMaxEmbeddingWidth) {
    diagnostics->Report(
        "features",
        absl::StrCat("the embeddings are ", config->embedding_width(), " wide together"),
        absl::StrCat("use smaller dims or fewer features: at most ", kMaxEmbeddingWidth));
  }
}

}  // namespace simurgh
