#include <algorithm>

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "rpc/token.h"
#include "services/serving/http_security.h"

namespace simurgh {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

}  // namespace

BearerTokens::Digest BearerTokens::DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

StatusOr<std::shared_ptr<const BearerTokens>> BearerTokens::Load(const std::string& file) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, rpc::ReadSecretFile(file, kMaxFileBytes));
  auto tokens = std::make_shared<BearerTokens>();
  size_t line = 0;
  for (const absl::string_view part : absl::StrSplit(text, '\n')) {
    ++line;
    const absl::string_view token = absl::StripAsciiWhitespace(part);
    if (token.empty()) continue;
    if (token.size() < kMinBytes) {
      return rpc::WrongSecretFile(file, absl::StrCat("has ", token.size(), " bytes in line ", line,
                                                     ", expected a token of at least ", kMinBytes));
    }
    tokens->digests_.push_back(DigestOf({token.data(), token.size()}));
  }
  if (tokens->digests_.empty()) return rpc::WrongSecretFile(file, "has no token");
  return tokens;
}

bool BearerTokens::Allow(std::string_view authorization) const {
  constexpr absl::string_view kScheme = "Bearer ";
  absl::string_view token(authorization.data(), authorization.size());
  if (!absl::StartsWithIgnoreCase(token, kScheme)) return false;
  token = absl::StripAsciiWhitespace(token.substr(kScheme.size()));
  const Digest given = DigestOf({token.data(), token.size()});
  bool found = false;
  for (const Digest& digest : digests_) {
    found |= CRYPTO_memcmp(digest.data(), given.data(), given.size()) == 0;
  }
  return found;
}

}  // namespace simurgh
