#pragma once

#include <cstdint>
#include <memory>
#include <semaphore>
#include <string>

#include "objects/object_store.h"

#include "base/status.h"
#include "model/file_system.h"

namespace simurgh {

// Files that are objects of a bucket. The store must outlive them. Messages name the object.

// Opens an object to read it. Reads its begin, which small files are.
StatusOr<std::unique_ptr<File>> OpenObject(ObjectStore& store, const std::string& key);

// A file to write, of which nothing exists before Sync(). Its bytes can come in any order, each of
// them once. uploads: limits the parts that are under way at once.
std::unique_ptr<File> CreateObject(ObjectStore& store, std::string key, uint64_t part_bytes,
                                   std::counting_semaphore<>& uploads);

}  // namespace simurgh
