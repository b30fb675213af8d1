#include "data/processing/feature_consumer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/text.h"
#include "data/processing/feature_ids.h"
#include "data/processing/plugin.h"

namespace simurgh {
namespace {

struct Derived {
  Plugin plugin;
  std::vector<size_t> columns;
  std::vector<float> values;  // Values of the current row.
};

class FeatureConsumer final : public RowConsumer {
 public:
  FeatureConsumer(size_t columns, size_t first_derived)
      : is_read_(columns), first_derived_(first_derived) {}

  void Add(FeatureIds feature) {
    for (const size_t column : feature.columns()) is_read_[column] = true;
    numbers_.push_back(features_.size());
    features_.push_back(std::move(feature));
  }

  void Add(Derived derived) {
    for (const size_t column : derived.columns) is_read_[column] = true;
    derived_.push_back(std::move(derived));
  }

  bool Reads(size_t column) const override { return is_read_[column]; }

  std::vector<Hashed> TakeHashed(std::span<const size_t> columns) override {
    std::vector<Hashed> taken;
    for (const size_t column : columns) {
      const std::optional<uint64_t> seed = OnlySeedOf(column);
      if (!seed) continue;
      is_read_[column] = false;
      for (size_t f = features_.size(); f-- > 0;) {
        if (features_[f].columns().front() != column) continue;
        taken.push_back({.feature = numbers_[f], .column = column, .seed = *seed});
        features_.erase(features_.begin() + static_cast<ptrdiff_t>(f));
        numbers_.erase(numbers_.begin() + static_cast<ptrdiff_t>(f));
      }
    }
    return taken;
  }

  Status Consume(const RowCells& cells, BatchBuilder& builder) override {
    for (size_t f = 0; f < features_.size(); ++f) {
      if (const uint64_t* id = features_[f].OnlyNumber(cells); id != nullptr) {
        builder.AddId(numbers_[f], *id);
        continue;
      }
      SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t>* ids, features_[f].Of(cells));
      const std::vector<float>& weights = features_[f].weights();
      for (size_t i = 0; i < ids->size(); ++i) {
        builder.AddId(numbers_[f], (*ids)[i], weights.empty() ? 1.0F : weights[i]);
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
  // Returns the seed of a column whose only uses are hashes by one seed.
  std::optional<uint64_t> OnlySeedOf(size_t column) const {
    const auto reads = [column](const std::vector<size_t>& columns) {
      return std::ranges::find(columns, column) != columns.end();
    };
    std::optional<uint64_t> only;
    for (const FeatureIds& feature : features_) {
      if (!reads(feature.columns())) continue;
      const std::optional<uint64_t> seed = feature.plain_seed();
      if (!seed || (only && *only != *seed)) return std::nullopt;
      only = seed;
    }
    for (const Derived& derived : derived_) {
      if (reads(derived.columns)) return std::nullopt;
    }
    return only;
  }

  std::vector<bool> is_read_;  // One per column.
  size_t first_derived_;       // Index of the first derived value among the dense columns.
  std::vector<FeatureIds> features_;
  std::vector<size_t> numbers_;  // Index of each of features_ among all features.
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

std::string QuotedValues(const RowCells& cells, std::span<const size_t> columns) {
  constexpr size_t kShownValues = 8;
  std::string text;
  size_t count = 0;
  for (const size_t column : columns) {
    for (const Token& part : cells.cell(column)) {
      if (++count > kShownValues) return absl::StrCat(text, ", ...");
      absl::StrAppend(&text, count == 1 ? "" : ", ", Quoted(part.text));
    }
  }
  return count == 0 ? "missing cells" : text;
}

StatusOr<std::unique_ptr<RowConsumer>> NewFeatureConsumer(
    const DataConfig& config, const std::vector<FeatureConfig>& features, bool warns) {
  const std::vector<ColumnConfig> columns = ColumnsOf(config);
  size_t first_derived = 0;
  for (const ColumnConfig& column : columns) {
    if (column.kind == ColumnConfig::Kind::kDense) first_derived += column.width;
  }
  auto consumer = std::make_unique<FeatureConsumer>(columns.size(), first_derived);
  for (const FeatureConfig& feature : features) {
    const std::vector<size_t> places = PlacesOf(feature.sources(), columns);
    SIMURGH_ASSIGN_OR_RETURN(FeatureIds ids,
                             FeatureIds::Create(feature, places, config.missing_values,
                                                columns[places.front()].value_scales, warns));
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
