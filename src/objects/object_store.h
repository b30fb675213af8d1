#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace simurgh {

// The objects below a prefix of a bucket. Keys are relative to the prefix, such as
// "step-5/dense.safetensors". Every call sees what earlier calls of any process have done.
//
// Errors of all: NOT_FOUND without the object or the bucket; PERMISSION_DENIED for a key that the
// store refuses; UNAVAILABLE or DEADLINE_EXCEEDED if the store does not answer after several tries.
// Messages name the object and the remedy.
// Threads: any. Calls wait for the store.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Name of an object in messages: its URI.
  virtual std::string NameOf(std::string_view key) const = 0;

  struct Object {
    std::string bytes;
    std::string tag;     // The store's name of this content, for Put().
    uint64_t whole = 0;  // Size of the object, of which `bytes` may be a part.
  };
  // Reads the first `max_bytes` of an object. known_tag: if the object still has it, nothing is
  // read and the result is empty.
  virtual StatusOr<std::optional<Object>> Get(std::string_view key, uint64_t max_bytes,
                                              std::string_view known_tag = "") = 0;
  // Fills `bytes` from a byte of the object on. tag: of the object; empty for any. Errors:
  // DATA_LOSS if the object ends before; ABORTED if it has another tag.
  virtual Status Read(std::string_view key, std::string_view tag, uint64_t offset,
                      std::span<std::byte> bytes) = 0;

  // What an object must be before it is replaced.
  struct Condition {
    enum class Kind : uint8_t { kNone, kMissing, kTag } kind = Kind::kNone;
    std::string tag;  // Only with kTag.
  };
  // Creates or replaces an object, as a whole or not at all. Returns its tag.
  // Errors: ABORTED if the condition does not hold; a repeated try can have met an earlier one.
  virtual StatusOr<std::string> Put(std::string_view key, std::string_view bytes,
                                    const Condition& condition) = 0;
  // Removes an object. One that does not exist is no error.
  virtual Status Remove(std::string_view key) = 0;

  struct Listing {
    std::vector<std::string> keys;     // Sorted; whole keys.
    std::vector<std::string> folders;  // With the slash; only if not `deep`.
  };
  // Lists objects whose keys begin with `prefix`. deep: keys with further slashes, too.
  virtual StatusOr<Listing> List(std::string_view prefix, bool deep) = 0;

  // An object that is uploaded in parts, in any order. It exists once it is complete.
  struct Upload {
    std::string key;
    std::string id;
  };
  // A part has 5 MiB or more, but for the last one.
  static constexpr uint64_t kMaxParts = 10'000;
  virtual StatusOr<Upload> BeginUpload(std::string_view key) = 0;
  // number: from 1. Returns the part's tag.
  virtual StatusOr<std::string> PutPart(const Upload& upload, uint64_t number,
                                        std::string_view bytes) = 0;
  // part_tags: of all parts in their order. bytes: the size of all.
  virtual Status Complete(const Upload& upload, std::span<const std::string> part_tags,
                          uint64_t bytes) = 0;
  virtual Status Abort(const Upload& upload) = 0;
  // Lists the uploads that are neither complete nor aborted.
  virtual StatusOr<std::vector<Upload>> Uploads() = 0;
};

}  // namespace simurgh
