#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace simurgh {

// Returns the ids as integers, if each of them is the decimal text of one; else nothing.
std::vector<int64_t> IntegersOf(std::span<const std::string> ids);

// Returns whether a name has an ending that WriteVectors() knows.
bool HasVectorFormat(const std::string& name);

// Writes vectors for other programs, by the ending of `path`: `ids` and `vectors` f32 [N, dim].
//
// .npz: ids [N] are int64 if all are integers, else unicode texts. .safetensors: ids are U64 if all
// are integers of at least 0, else `ids.bytes` U8 and `ids.offsets` U64 [N + 1], with text i from
// offset i to before offset i + 1. .parquet: ids are int64 if all are integers, else texts; vectors
// are lists; libsimurgh_arrow.so writes it. .csv: a header, then an id and `[x,y,...]` on each
// line. vectors: (N, dim). ids: N. name: the path that a format is chosen by. Requires
// HasVectorFormat(name). Errors: those of the files.
Status WriteVectors(const std::string& path, const std::string& name,
                    std::span<const std::string> ids, std::span<const float> vectors, size_t dim);

}  // namespace simurgh
