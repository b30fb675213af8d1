#include <cstring>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "base/check.h"
#include "bench/micro/cold/tier.h"

namespace simurgh::bench {
namespace {

rocksdb::Slice KeyOf(const uint64_t& id) {
  return {reinterpret_cast<const char*>(&id), sizeof(id)};
}

class RocksDbTier : public Tier {
 public:
  RocksDbTier(const std::string& folder, uint64_t record_bytes) : record_bytes_(record_bytes) {
    rocksdb::BlockBasedTableOptions table;
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    table.block_cache = rocksdb::NewLRUCache(size_t{64} << 20);
    rocksdb::Options options;
    options.create_if_missing = true;
    options.use_direct_reads = true;
    options.use_direct_io_for_flush_and_compaction = true;
    options.compression = rocksdb::kNoCompression;
    options.write_buffer_size = size_t{64} << 20;
    options.IncreaseParallelism(2);
    options.statistics = rocksdb::CreateDBStatistics();
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    statistics_ = options.statistics;
    rocksdb::DestroyDB(folder, options);
    rocksdb::DB* db = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, folder, &db);
    SIMURGH_CHECK(status.ok()) << status.ToString();
    db_.reset(db);
  }

  void Add(std::span<const uint64_t> ids, std::span<const std::byte> records) override {
    rocksdb::WriteBatch batch;
    for (size_t i = 0; i < ids.size(); ++i) {
      batch.Put(KeyOf(ids[i]),
                {reinterpret_cast<const char*>(&records[i * record_bytes_]), record_bytes_});
    }
    Write(batch);
  }

  void Take(std::span<const uint64_t> ids, std::vector<std::byte>& records) override {
    std::vector<rocksdb::Slice> keys;
    for (const uint64_t& id : ids) keys.push_back(KeyOf(id));
    std::vector<rocksdb::PinnableSlice> values(ids.size());
    std::vector<rocksdb::Status> found(ids.size());
    rocksdb::ReadOptions options;
    options.async_io = true;
    db_->MultiGet(options, db_->DefaultColumnFamily(), keys.size(), keys.data(), values.data(),
                  found.data());
    records.resize(ids.size() * record_bytes_);
    rocksdb::WriteBatch batch;
    for (size_t i = 0; i < ids.size(); ++i) {
      SIMURGH_CHECK(found[i].ok()) << found[i].ToString();
      std::memcpy(&records[i * record_bytes_], values[i].data(), record_bytes_);
      batch.Delete(keys[i]);
    }
    Write(batch);
  }

  uint64_t written_bytes() const override {
    return statistics_->getTickerCount(rocksdb::COMPACT_WRITE_BYTES) +
           statistics_->getTickerCount(rocksdb::FLUSH_WRITE_BYTES);
  }
  uint64_t disk_bytes() const override {
    uint64_t bytes = 0;
    db_->GetIntProperty("rocksdb.total-sst-files-size", &bytes);
    return bytes;
  }

 private:
  void Write(rocksdb::WriteBatch& batch) {
    rocksdb::WriteOptions options;
    options.disableWAL = true;
    const rocksdb::Status status = db_->Write(options, &batch);
    SIMURGH_CHECK(status.ok()) << status.ToString();
  }

  const uint64_t record_bytes_;
  std::shared_ptr<rocksdb::Statistics> statistics_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

std::unique_ptr<Tier> NewRocksDbTier(const std::string& folder, uint64_t record_bytes) {
  return std::make_unique<RocksDbTier>(folder, record_bytes);
}

}  // namespace simurgh::bench
