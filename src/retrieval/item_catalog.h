#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "retrieval/item_columns.h"
#include "retrieval/item_index.h"
#include "retrieval/tower_data.h"

#include "base/status.h"
#include "predict/model_version.h"
#include "tensor/matrix_view.h"

namespace simurgh {

// Which items a search returns.
struct ItemQuery {
  static constexpr uint32_t kMost = 10'000;  // Maximum of k in requests.

  size_t k = 10;                          // Items of a user, at most.
  std::vector<std::string> exclude = {};  // Ids of items that are left out; see ItemIds::Find().
  std::vector<CellFilter> filters = {};   // All must hold.
};

// What a catalog is made of, to notice a change.
struct CatalogSource {
  // The state of a file.
  struct File {
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t bytes = 0;
    int64_t changed = 0;  // In nanoseconds.

    bool operator==(const File&) const = default;
  };
  // Returns the present source. A file that is not there has an empty state.
  static CatalogSource Of(const ModelVersion& version, const std::vector<std::string>& files);

  uint64_t checksum = 0;  // The version's.
  std::vector<std::string> files;
  std::vector<File> states;

  bool operator==(const CatalogSource&) const = default;
};

// The items of files, with the vectors that a version of a model gives them.
//
// Threads: immutable; shared.
class ItemCatalog {
 public:
  // Returns the files of items: `given`, else those of data.items.
  static const std::vector<std::string>& FilesOf(const ModelVersion& version,
                                                 const std::vector<std::string>& given) {
    return given.empty() ? version.config().data.items.files : given;
  }

  // Reads items. files: not empty. id: column that names items; empty: see ItemIdColumn().
  // options.ends also ends the reading.
  // Errors: those of ItemIdColumn(), ItemColumnsIn(), ReadItemVectors() and ItemIndex::Create().
  static StatusOr<ItemCatalog> Load(const ModelVersion& version,
                                    const std::vector<std::string>& files, const std::string& id,
                                    const ItemIndex::Options& options);

  const ItemIds& ids() const { return ids_; }
  const std::vector<ItemColumn>& columns() const { return columns_; }
  const ItemIndex& index() const { return index_; }
  uint64_t bytes() const;  // Memory of vectors, ids and cells.

  // Returns the best items for users, (U, dim). Computes on the calling thread.
  // Errors: those of PositionsThatPass() and ItemIndex::Search().
  StatusOr<std::vector<std::vector<FoundItem>>> Search(MatrixView<const float> users,
                                                       const ItemQuery& query) const;

 private:
  ItemCatalog(ItemIds ids, std::vector<ItemColumn> columns, ItemIndex index);

  ItemIds ids_;
  std::vector<ItemColumn> columns_;
  ItemIndex index_;
};

}  // namespace simurgh
