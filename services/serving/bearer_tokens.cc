#include "services/serving/bearer_tokens.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "simurgh/base/file_descriptor.h"

namespace simurgh {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

Status Wrong(const std::string& file, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", file, "' ", problem, "; create it with: head -c 32 /dev/urandom | base64 > ", file,
      "; chmod 600 ", file));
}

}  // namespace

BearerTokens::Digest BearerTokens::DigestOf(std::string_view token) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  return digest;
}

StatusOr<std::shared_ptr<const BearerTokens>> BearerTokens::Load(const std::string& file) {
  const FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (opened.number() < 0 || ::fstat(opened.number(), &info) != 0) {
    return Wrong(file, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return Wrong(file, "is not a regular file");
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Wrong(file, "can be accessed by other users");
  }
  std::string text(kMaxFileBytes + 1, '\0');
  const ssize_t bytes = ::read(opened.number(), text.data(), text.size());
  if (bytes < 0) return Wrong(file, absl::StrCat("cannot be read: ", std::strerror(errno)));
  text.resize(static_cast<size_t>(bytes));
  if (text.size() > kMaxFileBytes) {
    return Wrong(file, absl::StrCat("exceeds ", kMaxFileBytes, " bytes"));
  }
  auto tokens = std::make_shared<BearerTokens>();
  size_t line = 0;
  for (const absl::string_view part : absl::StrSplit(text, '\n')) {
    ++line;
    const absl::string_view token = absl::StripAsciiWhitespace(part);
    if (token.empty()) continue;
    if (token.size() < kMinBytes) {
      return Wrong(file, absl::StrCat("has ", token.size(), " bytes in line ", line,
                                      ", expected a token of at least ", kMinBytes));
    }
    tokens->digests_.push_back(DigestOf({token.data(), token.size()}));
  }
  if (tokens->digests_.empty()) return Wrong(file, "has no token");
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
