#pragma once

#include <string>

#include "config/map_reader.h"

namespace simurgh {

// The last part of a path. Machines may keep the same file in different folders.
std::string FileName(const std::string& path);

// Makes the path that `key` gave absolute or relative to the working directory, by way of `folder`,
// and reports it when the file cannot be read, or is no regular file: then it answers false.
bool ResolveFile(MapReader& in, const std::string& key, const std::string& folder,
                 std::string* file);

}  // namespace simurgh
