#include "data/process/feature_sink.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "data/process/feature_ids.h"
#include "data/process/plugin.h"
#include "simurgh/data/batch_reader.h"

namespace simurgh {
namespace {

// A derived column at work.
struct Derived {
  Plugin plugin;
  std::vector<size_t> columns;
  std::vector<float> values;  // Of the present row.
};

class FeatureSink final : public RowConsumer {
 public:
  FeatureSink(size_t columns, size_t first_derived)
      : reader_of_(columns), first_derived_(first_derived) {}

  void Add(FeatureIds feature) {
    MarkReader(feature.columns(), absl::StrFormat("feature '%s'", feature.name()));
    features_.push_back(std::move(feature));
  }

  void Add(const std::string& name, Derived derived) {
    MarkReader(derived.columns, absl::StrFormat("derived column '%s'", name));
    derived_.push_back(std::move(derived));
  }

  bool Reads(size_t column) const override { return !reader_of_[column].empty(); }

  std::string ReaderOf(size_t column) const override { return reader_of_[column]; }

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
  void MarkReader(const std::vector<size_t>& columns, const std::string& reader) {
    for (const size_t column : columns) reader_of_[column] = reader;
  }

  std::vector<std::string> reader_of_;  // By column, one of them; empty: nobody.
  size_t first_derived_;
  std::vector<FeatureIds> features_;
  std::vector<Derived> derived_;
};

StatusOr<std::vector<size_t>> PlacesOf(const std::vector<std::string>& sources,
                                       const std::vector<std::string>& columns,
                                       const std::string& reader) {
  std::vector<size_t> places;
  for (const std::string& name : sources) {
    const auto column = std::find(columns.begin(), columns.end(), name);
    if (column == columns.end()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s names column '%s', which is not there; the columns are %s", reader,
                          name, absl::StrJoin(columns, ", ")));
    }
    places.push_back(column - columns.begin());
  }
  return places;
}

// Texts that read as missing before a weight.
std::vector<std::string> MissingValues(const DataConfig& config) {
  if (config.format == DataConfig::Format::kCriteo) return {""};
  return config.csv.missing_values;
}

// The dense column of the first derived value, behind those of the file.
size_t FirstDerived(const DataConfig& config) {
  size_t column = DenseColumns(config).size();
  for (const DerivedConfig& derived : config.derived) column -= derived.width;
  return column;
}

}  // namespace

StatusOr<std::unique_ptr<RowConsumer>> NewFeatureSink(const std::vector<std::string>& columns,
                                                      const DataConfig& config,
                                                      const std::vector<FeatureConfig>& features) {
  const std::vector<std::string> missing_values = MissingValues(config);
  auto sink = std::make_unique<FeatureSink>(columns.size(), FirstDerived(config));
  for (const FeatureConfig& feature : features) {
    SIMURGH_ASSIGN_OR_RETURN(auto places, PlacesOf(feature.sources(), columns,
                                                   absl::StrFormat("feature '%s'", feature.name)));
    SIMURGH_ASSIGN_OR_RETURN(FeatureIds ids,
                             FeatureIds::Create(feature, std::move(places), missing_values));
    sink->Add(std::move(ids));
  }
  for (const DerivedConfig& one : config.derived) {
    SIMURGH_ASSIGN_OR_RETURN(
        auto places,
        PlacesOf(one.columns, columns, absl::StrFormat("derived column '%s'", one.name)));
    const PluginPurpose purpose{.name = one.name, .columns = one.columns, .dense_width = one.width};
    SIMURGH_ASSIGN_OR_RETURN(Plugin plugin, Plugin::Create(one.plugin, purpose));
    sink->Add(one.name, {std::move(plugin), std::move(places), std::vector<float>(one.width)});
  }
  return sink;
}

}  // namespace simurgh
