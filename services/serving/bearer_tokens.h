#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simurgh/base/status.h"

namespace simurgh {

// The tokens with which clients may send requests: "Authorization: Bearer TOKEN".
//
// Threads: any; immutable.
class BearerTokens {
 public:
  static constexpr size_t kMinBytes = 32;

  // Reads a file of mode 0600 with one token in each line.
  // Errors: INVALID_ARGUMENT, naming the file, its line and the remedy.
  static StatusOr<std::shared_ptr<const BearerTokens>> Load(const std::string& file);

  // authorization: the value of the header. Takes the same time for any token.
  bool Allow(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest DigestOf(std::string_view token);

  std::vector<Digest> digests_;
};

}  // namespace simurgh
