#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"

namespace simurgh {

// The last part of a path. Machines may keep the same file in different folders.
std::string FileName(const std::string& path);

// A path relative to `folder`, without the parts "." and "..".
std::string PathIn(const std::string& folder, const std::string& path);

// Resolves the path of `key` relative to `folder`. Reports a file that is not regular or cannot be
// read, and returns whether it can.
bool ResolveFile(MapReader& in, const std::string& key, const std::string& folder,
                 std::string* file);

// Replaces folders by their files whose names end in `.parquet`, also those in folders in them, and
// paths with `*`, `?` or `[...]` by the files that match, each in the order of their names. Reports
// those without any. Relative to `folder`; the results are, too, or absolute.
void ExpandFiles(MapReader& in, const std::string& key, const std::string& folder,
                 std::vector<std::string>* files);

// ResolveFile() for an input file. Returns false without an error if input files are ignored.
bool ResolveInputFile(MapReader& in, const std::string& key, const std::string& folder,
                      std::string* file);

}  // namespace simurgh
