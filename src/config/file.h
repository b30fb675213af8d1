#pragma once

#include <string>
#include <vector>

#include "config/map_reader.h"

namespace simurgh {

// Returns the last part of a path. Machines may keep the same file in different folders.
std::string FileName(const std::string& path);

// Returns a path relative to `folder`, without the parts "." and "..".
std::string PathIn(const std::string& folder, const std::string& path);

// Reads the path of a file or folder, which need not exist, and resolves it relative to `folder`.
// A URI is an error.
void ReadPath(MapReader& in, const char* key, const char* meaning, const char* type,
              const std::string& folder, Need need, std::string* path);

// Reads the path of a model's folder like ReadPath(), or its URI in a bucket: see BucketPath().
void ReadModelFolder(MapReader& in, const char* key, const char* meaning, const std::string& folder,
                     std::string* path);

// Resolves the path of `key` relative to `folder`. Reports a file that is not regular or cannot be
// read, and returns whether it can.
bool ResolveFile(MapReader& in, const std::string& key, const std::string& folder,
                 std::string* file);

// Returns the files in a folder, and in folders in it, whose names end in `.parquet`, in order.
std::vector<std::string> ParquetFilesIn(const std::string& folder);

// ResolveFile() for an input file. Returns false without an error if input files are ignored.
bool ResolveInputFile(MapReader& in, const std::string& key, const std::string& folder,
                      std::string* file);

// Returns the files that match a pattern with *, ? or [...], in the order of their bytes, like the
// shell's LC_ALL=C ls. Returns the path itself if a file has this very name, or if none matches.
std::vector<std::string> FilesOfPattern(const std::string& path);

// Returns whether a path has *, ? or [.
bool IsPattern(const std::string& path);

}  // namespace simurgh
