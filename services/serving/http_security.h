#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/ssl.h>

#include "base/status.h"

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

  // Returns whether the header names one of the tokens. authorization: the value of the header.
  // Takes the same time for any token.
  bool Allow(std::string_view authorization) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  static Digest DigestOf(std::string_view token);

  std::vector<Digest> digests_;
};

// Loads the certificate of an HTTPS server, and the authority of its clients, from files in PEM
// form. The result is immutable: any thread may use it. client_authority: empty: clients need no
// certificate.
// Errors: INVALID_ARGUMENT "certificate: '...'", naming the file, the problem and the remedy.
StatusOr<std::shared_ptr<SSL_CTX>> LoadServerTls(const std::string& certificate,
                                                 const std::string& key,
                                                 const std::string& client_authority);

}  // namespace simurgh
