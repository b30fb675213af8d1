#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "objects/object_store.h"

#include "base/mutex.h"

namespace simurgh::testing {

// The content of a bucket, which several MemoryStores can share, as programs do.
struct MemoryBucket {
  struct Entry {
    std::string bytes;
    std::string tag;
  };
  Mutex mutex;  // Guards all but the last.
  std::map<std::string, Entry> objects;
  // Key and parts by id.
  std::map<std::string, std::pair<std::string, std::map<uint64_t, std::string>>> uploads;
  uint64_t changes = 0;
  bool ignores_conditions = false;
};

// A store in memory. Threads: any, but the hooks are set before. One request is done at a time.
class MemoryStore : public ObjectStore {
 public:
  explicit MemoryStore(std::shared_ptr<MemoryBucket> bucket) : bucket_(std::move(bucket)) {}

  // Called before and after each request, with a text such as "PUT names.json". An error is the
  // request's result; before, the request has no effect.
  std::function<Status(const std::string& request)> before;
  std::function<Status(const std::string& request)> after;

  std::string NameOf(std::string_view key) const override { return "s3://b/m/" + std::string(key); }
  StatusOr<std::optional<Object>> Get(std::string_view key, uint64_t max_bytes,
                                      std::string_view known_tag) override;
  Status Read(std::string_view key, std::string_view tag, uint64_t offset,
              std::span<std::byte> bytes) override;
  StatusOr<std::string> Put(std::string_view key, std::string_view bytes,
                            const Condition& condition) override;
  Status Remove(std::string_view key) override;
  StatusOr<Listing> List(std::string_view prefix, bool deep) override;
  StatusOr<Upload> BeginUpload(std::string_view key) override;
  StatusOr<std::string> PutPart(const Upload& upload, uint64_t number,
                                std::string_view bytes) override;
  Status Complete(const Upload& upload, std::span<const std::string> part_tags,
                  uint64_t bytes) override;
  Status Abort(const Upload& upload) override;
  StatusOr<std::vector<Upload>> Uploads() override;

 private:
  // Runs a request between the hooks.
  template <typename Result, typename Work>
  Result Do(const std::string& request, Work work);

  const std::shared_ptr<MemoryBucket> bucket_;
  Mutex order_;  // Held by a request and its hooks.
};

}  // namespace simurgh::testing
