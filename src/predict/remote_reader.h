#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "config/table_config.h"
#include "embedding/row_cache.h"
#include "predict/remote_rows.h"
#include "predict/version_rows.h"

namespace simurgh {

// Reads rows of batches from servers. Caches hot rows of the current version, and which ids have
// none. When a version becomes current whose changes are known, only the changed rows are dropped.
// Reads of other versions bypass the cache.
//
// Threads: one owner. Lifetime: `rows` outlives this.
class RemoteReader {
 public:
  // precision: of the rows that are read; see RowEncoding. hot_row_bytes: 0 for no cache; allocated
  // by the first read of a current version.
  RemoteReader(RemoteRows& rows, const std::vector<TableConfig>& tables, VectorPrecision precision,
               size_t hot_row_bytes);

  // The distinct ids of one table. found[i]: the weights of ids[i], null without a row; valid until
  // the next Read().
  struct List {
    uint32_t table = 0;
    std::span<const uint64_t> ids;
    std::span<const std::byte*> found;
  };
  // Reads the rows, with one request to each server that has ids which are not in the cache.
  // Errors: those of RemoteRows::Read(); INTERNAL for an answer of another length.
  Status Read(uint64_t checksum, const RowChanges& changes, std::span<const List> lists);

 private:
  // An id that is read from a server.
  struct Wanted {
    uint32_t table;
    uint64_t id;
    std::byte* place;         // Destination of the row, then of kHasRow.
    const std::byte** found;  // See List.
  };

  // Returns whether the cache has this version's rows, or may get them.
  bool Follows(uint64_t checksum, const RowChanges& changes);
  Status Take(const RowAnswer& answer, std::span<const Wanted> wanted, bool caches);
  // Reads a batch's rows, without the cache if !caches.
  void Collect(std::span<const List> lists, bool caches);

  RemoteRows& rows_;
  const size_t hot_row_bytes_;
  const RowShare servers_;
  std::vector<size_t> row_bytes_;  // Indexed by table.
  std::optional<RowCache> cache_;
  uint64_t cached_ = 0;  // The version of the cache's rows.
  std::vector<std::byte> memory_;
  std::vector<RowRead> reads_;               // Indexed by server.
  std::vector<std::vector<Wanted>> wanted_;  // Indexed by server; parallel to reads_.ids.
  std::vector<RowAnswer> answers_;
};

}  // namespace simurgh
