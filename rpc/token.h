#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace simurgh::rpc {

// A secret that the ends of a connection prove to each other without sending it: each sends a nonce
// and the HMAC-SHA256 of its label, both nonces and its claims. A proof cannot be used for other
// claims. It does not protect against those who can read or change the traffic.
//
// Threads: any; immutable.
class Token {
 public:
  static constexpr size_t kMinBytes = 32;
  static constexpr size_t kMaxBytes = 4'096;

  using Nonce = std::array<std::byte, 32>;
  using Proof = std::array<std::byte, 32>;
  // The labels of the ends.
  static constexpr std::string_view kServer = "server";
  static constexpr std::string_view kClient = "client";

  // Reads a file that only its owner may access. Does not count white space at its end.
  // Errors: INVALID_ARGUMENT, naming the file and the remedy.
  static StatusOr<std::shared_ptr<const Token>> Load(const std::string& file);

  explicit Token(std::string secret) : secret_(std::move(secret)) {}

  static Nonce NewNonce();
  // peer, own: the nonces of the peer and of the end that proves. claims: what it says of itself.
  Proof Prove(std::string_view label, const Nonce& peer, const Nonce& own,
              std::string_view claims) const;
  // Returns whether `proof` equals the result of Prove(). Takes the same time for any proof of the
  // right size.
  bool IsProof(std::span<const std::byte> proof, std::string_view label, const Nonce& peer,
               const Nonce& own, std::string_view claims) const;

 private:
  const std::string secret_;
};

// Reads a file with a secret, of at most max_bytes, that only its owner, this user or root, may
// access. Errors: WrongSecretFile().
StatusOr<std::string> ReadSecretFile(const std::string& file, size_t max_bytes);

// Returns what makes a secret easy to guess, for WrongSecretFile(); empty for nothing.
std::string WeaknessOf(std::string_view secret);

// Returns INVALID_ARGUMENT with the file, the problem, and how to make such a file.
Status WrongSecretFile(const std::string& file, const std::string& problem);

// The refusal of a peer whose token differs: UNAUTHENTICATED, naming the key of the token and the
// problem.
Status TokenRefusal(std::string_view problem);

}  // namespace simurgh::rpc
