#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/process/plugin.h"
#include "data/process/row_cells.h"
#include "data/process/vocabulary.h"
#include "simurgh/base/status.h"
#include "simurgh/config/feature_config.h"

namespace simurgh {

// Ids that stand for what is not there, and for nothing else where they do: a value that has one is
// refused. No modulo changes them; a hash stack folds them like any.
inline constexpr uint64_t kPaddingId = ~uint64_t{0};
inline constexpr uint64_t kMissingId = ~uint64_t{0} - 1;

// Most ids that a cross makes of one sample.
inline constexpr size_t kMaxCrossedIds = 65'536;

// What one feature makes of its columns' cells, as its configuration says.
//
// Threads: one owner.
class FeatureIds {
 public:
  // columns: places of its sources among the cells. missing_values: what reads as missing before a
  // weight; where there are none, cells come without it.
  // Errors: INVALID_ARGUMENT naming the feature and what does not fit together.
  static StatusOr<FeatureIds> Create(const FeatureConfig& config, std::vector<size_t> columns,
                                     const std::vector<std::string>& missing_values = {});

  const std::string& name() const { return config_.name; }
  const std::vector<size_t>& columns() const { return columns_; }

  // The sample's ids; valid until the next call.
  // Errors: INVALID_ARGUMENT naming the feature, the value and the remedy.
  StatusOr<const std::vector<uint64_t>*> Of(const RowCells& cells);

  // Of the ids that Of answered last; none: all 1.
  const std::vector<float>& weights() const { return weights_; }

 private:
  FeatureIds(const FeatureConfig& config, std::vector<size_t> columns, std::optional<Plugin> plugin,
             const std::vector<std::string>& missing_values);

  Status OfCell(std::span<const Token> tokens, std::vector<uint64_t>& ids);
  // As OfCell, where tokens have weights.
  Status OfWeightedCell(std::span<const Token> tokens);
  Status Cross(const RowCells& cells);
  Status CheckCrossed(const RowCells& cells, std::span<const std::vector<uint64_t>> lists) const;
  StatusOr<std::optional<uint64_t>> IdOf(const Token& token) const;
  StatusOr<uint64_t> IntegerOf(const Token& token) const;
  Status BadToken(const Token& token, std::string_view problem) const;
  // Why there are no ids, where that is an error.
  Status NoIds(const RowCells& cells) const;
  Status MakeIds(const RowCells& cells);
  // The common case, at once; false leaves no ids.
  bool TakeNumbers(std::span<const Token> tokens);
  // Whether no id is one of those that stand for what is not there, where these are in use.
  Status CheckReserved(const RowCells& cells) const;
  void Fold();
  void FoldWeights();

  FeatureConfig config_;
  std::vector<size_t> columns_;
  bool takes_numbers_ = false;  // A number's id is the number, and nothing follows.
  std::shared_ptr<const Vocabulary> vocabulary_;  // Null: none.
  std::optional<Plugin> plugin_;
  std::vector<std::string> missing_values_;
  std::optional<std::string_view> unknown_;  // A value of the row that the vocabulary leaves out.
  std::vector<uint64_t> ids_;
  std::vector<float> weights_;
  std::vector<uint64_t> scratch_;
};

}  // namespace simurgh
