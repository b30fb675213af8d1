#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "base/hash.h"
#include "base/status.h"
#include "config/data_config.h"
#include "config/feature_config.h"
#include "data/processing/feature_consumer.h"
#include "data/processing/plugin.h"

namespace simurgh {

// Sets the rows of a hash stack for `id`, whose vector is their sum. With h_0 = id and
// h_r = FarmHash64(h_{r-1} as 8 little-endian bytes), row r (from 1) is
// h_r % buckets + (r - 1) * buckets, so that rounds never share a row. Two ids share all their rows
// with probability buckets^-rounds.
//
// rows: (config.rounds), overwritten. Requires buckets > 0.
// Threads: any.
// Source: PERSIA (Lian et al., arXiv 2111.05897); FarmHash's Fingerprint64, which is the same on
// every machine. Its values are part of the data format.
void HashStackRows(const HashStackConfig& config, uint64_t id, std::span<uint64_t> rows);

// Stable 64-bit hashes of values: part of the data format, equal on every machine.
//
// Seeds are mixed first, because XXH3 only adds them to short inputs: small seeds would swap the
// hashes of "1" and "2". Mixing leaves seed 0 unchanged.

inline uint64_t HashText(std::string_view text, uint64_t seed) {
  return HashBytes(text, Mix64(seed));
}

// Hashes by a bijection for each seed, so that integers never collide.
inline uint64_t HashInteger(uint64_t value, uint64_t seed) { return Mix64(value + Mix64(seed)); }

// Returns the hash of ids in this order: XXH3 of their little-endian bytes.
inline uint64_t CrossIds(std::span<const uint64_t> ids, uint64_t seed) {
  return HashBytes({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()}, Mix64(seed));
}

// Cuts a list to config.max_length and, with config.pad, appends `padding` up to that length. Does
// nothing if max_length is 0.
template <typename T>
void FitLength(const ProcessingConfig& config, T padding, std::vector<T>& list) {
  const size_t length = config.max_length;
  if (length == 0) return;
  if (list.size() > length && config.keep == ProcessingConfig::Keep::kLast) {
    list.erase(list.begin(), list.end() - static_cast<std::ptrdiff_t>(length));
  }
  if (list.size() > length || config.pad) list.resize(length, padding);
}

// Reserved ids. While one is in use, a value with this id is an error. `modulo` does not change
// them; a hash stack folds them.
inline constexpr uint64_t kPaddingId = ~uint64_t{0};
inline constexpr uint64_t kMissingId = ~uint64_t{0} - 1;

// Maximum number of ids of a cross per sample.
inline constexpr size_t kMaxCrossedIds = 65'536;

// Turns the cells of a feature's columns into ids.
//
// Threads: one owner.
class FeatureIds {
 public:
  // columns: places of the sources among the cells. missing_values: values with a weight that are
  // missing. value_scales: index -> scale, for values with a weight. warns: whether weights that
  // are too large are logged. Requires a checked configuration with fitted quantiles.
  // Errors: INVALID_ARGUMENT of a plug-in.
  static StatusOr<FeatureIds> Create(const FeatureConfig& config, std::vector<size_t> columns,
                                     const std::vector<std::string>& missing_values = {},
                                     const std::map<uint64_t, ValueScale>& value_scales = {},
                                     bool warns = true);

  const std::string& name() const { return config_.name; }
  const std::vector<size_t>& columns() const { return columns_; }

  // Returns the seed, if an id is just HashText() of a value of the only column.
  std::optional<uint64_t> plain_seed() const;

  // Returns the sample's ids; valid until the next call. If cells.AreRepeated(), returns those of
  // the last call.
  // Errors: INVALID_ARGUMENT naming the feature, the value and the remedy.
  StatusOr<const std::vector<uint64_t>*> Of(const RowCells& cells);

  // Returns the sample's only id if it is a number that needs no processing. Returns null if the
  // caller must use Of().
  const uint64_t* OnlyNumber(const RowCells& cells) const {
    if (!takes_numbers_) return nullptr;
    const std::span<const Token> tokens = cells.cell(columns_[0]);
    return tokens.size() == 1 && tokens[0].is_number ? &tokens[0].number : nullptr;
  }

  // Returns the weights of the last ids that Of() returned; empty: all 1.
  const std::vector<float>& weights() const { return weights_; }

 private:
  FeatureIds(const FeatureConfig& config, std::vector<size_t> columns, std::optional<Plugin> plugin,
             const std::vector<std::string>& missing_values,
             const std::map<uint64_t, ValueScale>& value_scales, bool warns);

  Status SetIds(const RowCells& cells);
  Status OfCell(std::span<const Token> tokens, std::vector<uint64_t>& ids);
  Status OfWeightedCell(std::span<const Token> tokens);
  float ScaledWeight(std::string_view value, float weight) const;
  Status Cross(const RowCells& cells);
  Status CheckCrossed(const RowCells& cells, std::span<const std::vector<uint64_t>> lists) const;
  StatusOr<std::optional<uint64_t>> IdOf(const Token& token) const;
  Status BadToken(const Token& token, std::string_view problem) const;
  Status NoIds(const RowCells& cells) const;
  bool HasWeights(const RowCells& cells) const;
  Status MakeIds(const RowCells& cells);
  // Sets the ids in the common case. Returns false if a token is not a number; then it sets none.
  bool TakeNumbers(std::span<const Token> tokens);
  // Checks that no value has a reserved id in use.
  Status CheckReserved(const RowCells& cells) const;
  void Fold();

  FeatureConfig config_;
  std::vector<size_t> columns_;
  bool takes_numbers_;  // A number is its own id, without further processing.
  absl::flat_hash_map<std::string, uint64_t> vocabulary_;
  std::optional<Plugin> plugin_;
  std::vector<std::string> missing_values_;
  absl::flat_hash_map<uint64_t, ValueScale> value_scales_;
  bool warns_;
  std::optional<std::string_view> unknown_;  // A value of the row outside the vocabulary.
  std::vector<uint64_t> ids_;
  bool has_ids_ = false;  // ids_ are those of the last call.
  std::vector<float> weights_;
  std::vector<uint64_t> scratch_;
};

}  // namespace simurgh
