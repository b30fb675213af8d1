#include "data/process/feature_sink.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "data/process/feature_ids.h"

namespace simurgh {
namespace {

class FeatureSink final : public CellSink {
 public:
  FeatureSink(size_t columns, std::vector<FeatureIds> features)
      : reader_of_(columns), features_(std::move(features)) {
    for (const FeatureIds& feature : features_) {
      for (const size_t column : feature.columns()) reader_of_[column] = &feature;
    }
  }

  bool Reads(size_t column) const override { return reader_of_[column] != nullptr; }

  std::string ReaderOf(size_t column) const override {
    return absl::StrFormat("feature '%s'", reader_of_[column]->name());
  }

  Status Take(const RowCells& cells, BatchBuilder& builder) override {
    for (size_t f = 0; f < features_.size(); ++f) {
      SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t>* ids, features_[f].Of(cells));
      for (const uint64_t id : *ids) builder.AddId(f, id);
    }
    return absl::OkStatus();
  }

 private:
  std::vector<const FeatureIds*> reader_of_;  // By column, one of them.
  std::vector<FeatureIds> features_;
};

}  // namespace

StatusOr<std::unique_ptr<CellSink>> NewFeatureSink(const std::vector<std::string>& columns,
                                                   const std::vector<FeatureConfig>& features) {
  std::vector<FeatureIds> ids;
  for (const FeatureConfig& feature : features) {
    std::vector<size_t> places;
    for (const std::string& name : feature.sources()) {
      const auto column = std::find(columns.begin(), columns.end(), name);
      if (column == columns.end()) {
        return absl::InvalidArgumentError(absl::StrFormat(
            "feature '%s' names column '%s', which is not there; the columns are %s", feature.name,
            name, absl::StrJoin(columns, ", ")));
      }
      places.push_back(column - columns.begin());
    }
    SIMURGH_ASSIGN_OR_RETURN(FeatureIds one, FeatureIds::Create(feature, std::move(places)));
    ids.push_back(std::move(one));
  }
  return std::make_unique<FeatureSink>(columns.size(), std::move(ids));
}

}  // namespace simurgh
