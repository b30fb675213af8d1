#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "config/cluster_config.h"
#include "data/reading/row_text.h"
#include "nn/dense_model.h"

namespace simurgh {

// Returns the name of a model's tower for users or items. Errors: INVALID_ARGUMENT for a model
// whose last tower is no dot of two.
StatusOr<std::string> TowerOf(const ClusterConfig& config, TowerSide side);

// Returns the format of files with the columns of one tower: they may lack those that only the
// other tower reads, and labels. CSV has a header. texts: further columns of the files, whose texts
// are read.
// data: the format of the files, with the columns of the configuration.
// Errors: INVALID_ARGUMENT for files of CSV whose header lacks columns of the tower, listing them;
// NOT_FOUND and others for a file that cannot be read.
StatusOr<DataConfig> DataOfTower(const ClusterConfig& config, const DataConfig& data,
                                 TowerSide side, const std::vector<std::string>& texts,
                                 const std::vector<std::string>& files);

// Reads the texts of columns from the lines that ReadOptions::on_row gets.
//
// Threads: one at a time.
class ColumnTexts {
 public:
  // Errors: those of RowText::Create().
  static StatusOr<ColumnTexts> Create(const DataConfig& data,
                                      const std::vector<std::string>& columns);

  // Returns the texts, without blanks around them. Lifetime: until the next call, and the line's.
  const std::vector<std::string_view>& Of(std::string_view line);

 private:
  explicit ColumnTexts(RowText text) : text_(std::move(text)) {}

  RowText text_;
  std::vector<std::string_view> found_;
};

// The texts that name items, each once, numbered in the order of the files.
class ItemIds {
 public:
  // Adds the next item. Errors: INVALID_ARGUMENT for an empty text and one that is there, naming
  // both rows, counted from 1 over all files.
  Status Add(std::string_view id);
  size_t size() const { return ids_.size(); }
  const std::vector<std::string>& texts() const { return ids_; }
  std::optional<uint32_t> Find(std::string_view id) const;

 private:
  std::vector<std::string> ids_;
  std::unordered_map<std::string, uint32_t> positions_;
};

// Reads the ids of all items of data.items. Errors: those of DataOfTower() and ItemIds::Add();
// INVALID_ARGUMENT for a bad row, or if there is no item.
StatusOr<ItemIds> ReadItemIds(const ClusterConfig& config);

}  // namespace simurgh
