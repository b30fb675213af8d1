#pragma once

#include <cstdint>
#include <span>

namespace simurgh::bench {

struct BatchMeasurement {
  uint64_t occurrences = 0;
  uint64_t unique_ids = 0;
  uint64_t cells = 0;  // Samples times features.
  uint64_t bytes = 0;  // Encoded.
  double entropy_bytes = 0.0;

  // Occurrences a second.
  double build_per_s = 0.0;
  double encode_per_s = 0.0;
  double make_per_s = 0.0;  // Both.
  double decode_per_s = 0.0;

  double of_bare() const;
  double of_plain() const;
  double of_persia() const;
  double entropy() const;
};

// Builds, encodes and decodes batches of these samples (see DrawSamples), medians of `turns`, each
// long enough to be timed.
BatchMeasurement Measure(std::span<const uint64_t> ids, size_t turns);

}  // namespace simurgh::bench
