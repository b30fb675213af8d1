#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace simurgh::bench {

// A place for rows that have left memory.
class Tier {
 public:
  virtual ~Tier() = default;

  // Adds rows. records: one after the other, each begins with its id.
  virtual void Add(std::span<const uint64_t> ids, std::span<const std::byte> records) = 0;
  // Reads the rows of ids, all of which are there, and takes them out.
  virtual void Take(std::span<const uint64_t> ids, std::vector<std::byte>& records) = 0;
  // Bytes written to disk, and bytes of the files.
  virtual uint64_t written_bytes() const = 0;
  virtual uint64_t disk_bytes() const = 0;
};

// RocksDB in a folder, without a log: direct reads and writes, no compression, a bloom filter.
std::unique_ptr<Tier> NewRocksDbTier(const std::string& folder, uint64_t record_bytes);

}  // namespace simurgh::bench
