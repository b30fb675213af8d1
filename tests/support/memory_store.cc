#include "tests/support/memory_store.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh::testing {
namespace {

Status Missing(std::string_view key) {
  return absl::NotFoundError(absl::StrCat(std::string(key), ": there is no such object"));
}

}  // namespace

template <typename Result, typename Work>
Result MemoryStore::Do(const std::string& request, Work work) {
  const MutexLock order(order_);
  if (before) SIMURGH_RETURN_IF_ERROR(before(request));
  Result result = [&] {
    const MutexLock lock(bucket_->mutex);
    return work(*bucket_);
  }();
  if (after) SIMURGH_RETURN_IF_ERROR(after(request));
  return result;
}

StatusOr<std::optional<ObjectStore::Object>> MemoryStore::Get(std::string_view key,
                                                              uint64_t max_bytes,
                                                              std::string_view known_tag) {
  using Result = StatusOr<std::optional<Object>>;
  return Do<Result>(absl::StrCat("GET ", std::string(key)), [&](MemoryBucket& bucket) -> Result {
    const auto found = bucket.objects.find(std::string(key));
    if (found == bucket.objects.end()) return Missing(key);
    const auto& [bytes, tag] = found->second;
    if (tag == known_tag) return std::nullopt;
    return Object{.bytes = bytes.substr(0, max_bytes), .tag = tag, .whole = bytes.size()};
  });
}

Status MemoryStore::Read(std::string_view key, std::string_view tag, uint64_t offset,
                         std::span<std::byte> bytes) {
  return Do<Status>(absl::StrCat("READ ", std::string(key)), [&](MemoryBucket& bucket) {
    const auto found = bucket.objects.find(std::string(key));
    if (found == bucket.objects.end()) return Missing(key);
    if (!tag.empty() && tag != found->second.tag) return absl::AbortedError("changed");
    const std::string& all = found->second.bytes;
    if (offset > all.size() || bytes.size() > all.size() - offset) {
      return absl::DataLossError(absl::StrCat(std::string(key), ": the object ends too early"));
    }
    std::memcpy(bytes.data(), all.data() + offset, bytes.size());
    return absl::OkStatus();
  });
}

StatusOr<std::string> MemoryStore::Put(std::string_view key, std::string_view bytes,
                                       const Condition& condition) {
  using Result = StatusOr<std::string>;
  return Do<Result>(absl::StrCat("PUT ", std::string(key)), [&](MemoryBucket& bucket) -> Result {
    const auto found = bucket.objects.find(std::string(key));
    const bool is_there = found != bucket.objects.end();
    const bool fits = condition.kind == Condition::Kind::kNone ||
                      (condition.kind == Condition::Kind::kMissing
                           ? !is_there
                           : is_there && found->second.tag == condition.tag);
    if (!fits && !bucket.ignores_conditions) return absl::AbortedError("changed");
    std::string tag = absl::StrCat("\"", ++bucket.changes, "\"");
    bucket.objects[std::string(key)] = {std::string(bytes), tag};
    return tag;
  });
}

Status MemoryStore::Remove(std::string_view key) {
  return Do<Status>(absl::StrCat("DELETE ", std::string(key)), [&](MemoryBucket& bucket) {
    bucket.objects.erase(std::string(key));
    return absl::OkStatus();
  });
}

StatusOr<ObjectStore::Listing> MemoryStore::List(std::string_view prefix, bool deep) {
  using Result = StatusOr<Listing>;
  return Do<Result>(absl::StrCat("LIST ", std::string(prefix)),
                    [&](MemoryBucket& bucket) -> Result {
                      Listing listing;
                      std::set<std::string> folders;
                      for (const auto& [key, entry] : bucket.objects) {
                        if (!key.starts_with(prefix)) continue;
                        const size_t slash = key.find('/', prefix.size());
                        if (deep || slash == key.npos) {
                          listing.keys.push_back(key);
                        } else {
                          folders.insert(key.substr(0, slash + 1));
                        }
                      }
                      listing.folders.assign(folders.begin(), folders.end());
                      return listing;
                    });
}

StatusOr<ObjectStore::Upload> MemoryStore::BeginUpload(std::string_view key) {
  using Result = StatusOr<Upload>;
  return Do<Result>(absl::StrCat("BEGIN ", std::string(key)), [&](MemoryBucket& bucket) -> Result {
    const std::string id = absl::StrCat("upload-", ++bucket.changes);
    bucket.uploads[id].first = std::string(key);
    return Upload{std::string(key), id};
  });
}

StatusOr<std::string> MemoryStore::PutPart(const Upload& upload, uint64_t number,
                                           std::string_view bytes) {
  using Result = StatusOr<std::string>;
  return Do<Result>(absl::StrCat("PART ", number, " ", upload.key),
                    [&](MemoryBucket& bucket) -> Result {
                      const auto found = bucket.uploads.find(upload.id);
                      if (found == bucket.uploads.end()) return Missing(upload.id);
                      found->second.second[number] = std::string(bytes);
                      return absl::StrCat("part-", number);
                    });
}

Status MemoryStore::Complete(const Upload& upload, std::span<const std::string> part_tags,
                             uint64_t bytes) {
  return Do<Status>(absl::StrCat("COMPLETE ", upload.key), [&](MemoryBucket& bucket) -> Status {
    const auto found = bucket.uploads.find(upload.id);
    if (found == bucket.uploads.end()) return Missing(upload.id);
    std::string all;
    for (size_t i = 0; i < part_tags.size(); ++i) {
      const auto part = found->second.second.find(i + 1);
      if (part == found->second.second.end() || part_tags[i] != absl::StrCat("part-", i + 1)) {
        return absl::FailedPreconditionError("InvalidPart");
      }
      const bool is_last = i + 1 == part_tags.size();
      if (!is_last && part->second.size() < (5 << 20)) {
        return absl::FailedPreconditionError("EntityTooSmall");
      }
      all += part->second;
    }
    if (all.size() != bytes) return absl::FailedPreconditionError("another size");
    bucket.objects[upload.key] = {std::move(all), absl::StrCat("\"", ++bucket.changes, "\"")};
    bucket.uploads.erase(found);
    return absl::OkStatus();
  });
}

Status MemoryStore::Abort(const Upload& upload) {
  return Do<Status>(absl::StrCat("ABORT ", upload.key), [&](MemoryBucket& bucket) {
    bucket.uploads.erase(upload.id);
    return absl::OkStatus();
  });
}

StatusOr<std::vector<ObjectStore::Upload>> MemoryStore::Uploads() {
  using Result = StatusOr<std::vector<Upload>>;
  return Do<Result>("UPLOADS", [&](MemoryBucket& bucket) -> Result {
    std::vector<Upload> uploads;
    for (const auto& [id, upload] : bucket.uploads) uploads.push_back({upload.first, id});
    return uploads;
  });
}

}  // namespace simurgh::testing
