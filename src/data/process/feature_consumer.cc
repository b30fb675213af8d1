#include "data/process/feature_consumer.h"

#include <algorithm>
#include <utility>

#include "data/process/feature_ids.h"
#include "data/process/plugin.h"
#include "simurgh/base/check.h"

namespace simurgh {
namespace {

struct Derived {
  Plugin plugin;
  std::vector<size_t> columns;
  std::vector<float> values;  // The current row.
};

class FeatureConsumer final : public RowConsumer {
 public:
  FeatureConsumer(size_t columns, size_t first_derived)
      : is_read_(columns), first_derived_(first_derived) {}

  void Add(FeatureIds feature) {
    for (const size_t column : feature.columns()) is_read_[column] = true;
    features_.push_back(std::move(feature));
  }

  void Add(Derived derived) {
    for (const size_t column : derived.columns) is_read_[column] = true;
    derived_.push_back(std::move(derived));
  }

  bool Reads(size_t column) const override { return is_read_[column]; }

  Status Consume(const RowCells& cells, BatchBuilder& builder) override {
    for (size_t f = 0; f < features_.size(); ++f) {
      SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t>* ids, features_[f].Of(cells));
      const std::vector<float>& weights = features_[f].weights();
      for (size_t i = 0; i < ids->size(); ++i) {
        builder.AddId(f, (*ids)[i], weights.empty() ? 1.0F : weights[i]);
      }
    }
    size_t column = first_derived_;
    for (Derived& derived : derived_) {
      SIMURGH_RETURN_IF_ERROR(derived.plugin.MakeDense(cells, derived.columns, derived.values));
      for (const float value : derived.values) builder.SetDense(column++, value);
    }
    return absl::OkStatus();
  }

 private:
  std::vector<bool> is_read_;  // By column.
  size_t first_derived_;       // Index of the first derived value among the dense columns.
  std::vector<FeatureIds> features_;
  std::vector<Derived> derived_;
};

std::vector<size_t> PlacesOf(const std::vector<std::string>& sources,
                             const std::vector<ColumnConfig>& columns) {
  std::vector<size_t> places;
  for (const std::string& name : sources) {
    const auto column = std::ranges::find(columns, name, &ColumnConfig::name);
    SIMURGH_CHECK(column != columns.end()) << "no column " << name;
    places.push_back(column - columns.begin());
  }
  return places;
}

}  // namespace

StatusOr<std::unique_ptr<RowConsumer>> NewFeatureConsumer(
    const DataConfig& config, const std::vector<FeatureConfig>& features) {
  const bool is_csv = config.format == DataConfig::Format::kCsv;
  const std::vector<std::string> missing_values =
      is_csv ? config.missing_values : std::vector<std::string>{""};
  const std::vector<ColumnConfig> columns = ColumnsOf(config);
  auto consumer = std::make_unique<FeatureConsumer>(
      columns.size(), std::ranges::count(columns, ColumnConfig::Kind::kDense, &ColumnConfig::kind));
  for (const FeatureConfig& feature : features) {
    SIMURGH_ASSIGN_OR_RETURN(
        FeatureIds ids,
        FeatureIds::Create(feature, PlacesOf(feature.sources(), columns), missing_values));
    consumer->Add(std::move(ids));
  }
  for (const DerivedConfig& one : config.derived) {
    const PluginPurpose purpose{.name = one.name, .columns = one.columns, .dense_width = one.width};
    SIMURGH_ASSIGN_OR_RETURN(Plugin plugin, Plugin::Create(one.plugin, purpose));
    consumer->Add(
        {std::move(plugin), PlacesOf(one.columns, columns), std::vector<float>(one.width)});
  }
  return consumer;
}

}  // namespace simurgh
