#include "retrieval/item_catalog.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <sys/stat.h>

#include "retrieval/item_vectors.h"

namespace simurgh {
namespace {

uint64_t BytesOf(const std::vector<std::string>& texts) {
  uint64_t bytes = 0;
  for (const std::string& text : texts) {
    // Short texts are within the string itself.
    const bool is_inside = text.capacity() <= std::string().capacity();
    bytes += sizeof(text) + (is_inside ? 0 : text.capacity() + 1);
  }
  return bytes;
}

}  // namespace

CatalogSource CatalogSource::Of(const ModelVersion& version,
                                const std::vector<std::string>& files) {
  constexpr int64_t kNanoseconds = 1'000'000'000;
  CatalogSource source{.checksum = version.checksum(), .files = files, .states = {}};
  for (const std::string& file : files) {
    struct stat found = {};
    File state;
    if (stat(file.c_str(), &found) == 0) {
      state = {.device = found.st_dev,
               .inode = found.st_ino,
               .bytes = static_cast<uint64_t>(found.st_size),
               .changed = found.st_mtim.tv_sec * kNanoseconds + found.st_mtim.tv_nsec};
    }
    source.states.push_back(state);
  }
  return source;
}

ItemCatalog::ItemCatalog(ItemIds ids, std::vector<ItemColumn> columns, ItemIndex index)
    : ids_(std::move(ids)), columns_(std::move(columns)), index_(std::move(index)) {}

StatusOr<ItemCatalog> ItemCatalog::Load(const ModelVersion& version,
                                        const std::vector<std::string>& files,
                                        const std::string& id, const ItemIndex::Options& options) {
  const ClusterConfig& config = version.config();
  SIMURGH_ASSIGN_OR_RETURN(const std::string id_column, ItemIdColumn(config, id));
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                           ItemColumnsIn(config, files.front()));
  SIMURGH_ASSIGN_OR_RETURN(ItemVectors vectors, ReadItemVectors(version, config.data, files,
                                                                id_column, names, options.ends));
  SIMURGH_ASSIGN_OR_RETURN(ItemIndex index,
                           ItemIndex::Create(std::move(vectors.vectors), vectors.dim, options));
  std::vector<ItemColumn> columns;
  for (size_t i = 0; i < names.size(); ++i) columns.emplace_back(names[i], vectors.columns[i]);
  return ItemCatalog(std::move(vectors.ids), std::move(columns), std::move(index));
}

uint64_t ItemCatalog::bytes() const {
  // Ids are in a list and, with a node of some 48 bytes, in a hash table.
  constexpr uint64_t kNodeBytes = 48;
  uint64_t bytes = index_.bytes() + 2 * BytesOf(ids_.texts()) + ids_.size() * kNodeBytes;
  for (const ItemColumn& column : columns_) {
    bytes += BytesOf(column.values) + column.codes.size() * sizeof(uint32_t);
  }
  return bytes;
}

StatusOr<std::vector<std::vector<FoundItem>>> ItemCatalog::Search(MatrixView<const float> users,
                                                                  const ItemQuery& query) const {
  SIMURGH_ASSIGN_OR_RETURN(const std::vector<uint64_t> allowed,
                           PositionsThatPass(query.filters, columns_, ids_.size()));
  std::vector<uint32_t> excluded;
  for (const std::string& id : query.exclude) {
    const std::optional<uint32_t> found = ids_.Find(id);
    if (found) excluded.push_back(*found);
  }
  std::ranges::sort(excluded);
  const auto repeated = std::ranges::unique(excluded);
  excluded.erase(repeated.begin(), repeated.end());
  return index_.Search(users, query.k, {.allowed = allowed, .excluded = excluded});
}

}  // namespace simurgh
