#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace simurgh {

// A file of a checkpoint.
struct ModelFile {
  std::string path;  // Relative to the checkpoint's folder in a manifest.
  uint64_t bytes = 0;
  // XXH3-64. The hash of a tensor file covers its header and checksums, which cover the rest; that
  // of another file covers all bytes.
  uint64_t hash = 0;

  bool operator==(const ModelFile&) const = default;
};

// The contents of a checkpoint's manifest.json. src/model/FORMAT.md lists the keys.
struct Manifest {
  static constexpr uint64_t kFormatVersion = 1;
  static constexpr uint64_t kMaxBytes = uint64_t{16} << 20;

  // The checkpoint that a delta continues.
  struct Parent {
    uint64_t step = 0;
    uint64_t checksum = 0;  // Checkpoint::checksum.

    bool operator==(const Parent&) const = default;
  };

  uint64_t run = 0;
  uint64_t generation = 0;                // Start of training that wrote it, counted from 1.
  uint64_t step = 0;                      // Steps trained; the next batch is this step's.
  uint64_t samples = 0;                   // Samples trained, over all ranks.
  int64_t step_time = 0;                  // Time at which the step ended, in seconds since 1970.
  std::optional<Parent> parent;           // The checkpoint that a delta continues; none if full.
  std::string position;                   // Opaque position in the data at which reading continues.
  std::map<std::string, double> metrics;  // Values by name; may be NaN or infinite.
  std::vector<std::pair<std::string, std::string>> config;  // Resolved keys and values.
  std::map<std::string, std::vector<double>> statistics;    // Fitted to the training data; by name.
  std::map<std::string, std::string> extra;                 // The caller's texts, by name.
  std::vector<ModelFile> files;                             // Sorted by path.

  // Returns the text, with its checksum in the second line. Numbers survive unchanged.
  // Requires: texts but `position` are UTF-8.
  std::string ToJson() const;
  // kIgnored: accepts a text that a person has edited.
  enum class Checksum { kCompared, kIgnored };
  // Parses a manifest. Accepts a text of an older version, without a checksum.
  // Errors: FAILED_PRECONDITION for another format version, naming both; DATA_LOSS for a text that
  // is no manifest, naming the key, or not that of its checksum. Messages do not name the file.
  static StatusOr<Manifest> FromJson(std::string_view json,
                                     Checksum checksum = Checksum::kCompared);
  // Returns whether a text that FromJson() accepts has a checksum.
  static bool HasChecksum(std::string_view json);

  bool operator==(const Manifest&) const = default;
};

}  // namespace simurgh
