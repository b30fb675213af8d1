#include "rpc/token.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "base/check.h"
#include "base/file_descriptor.h"
#include "rpc/call.h"

namespace simurgh::rpc {

Status WrongSecretFile(const std::string& file, const std::string& problem) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", file, "' ", problem, "; create it with: head -c 32 /dev/urandom | base64 > ", file,
      "; chmod 600 ", file));
}

StatusOr<std::string> ReadSecretFile(const std::string& file, size_t max_bytes) {
  const FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (opened.number() < 0 || ::fstat(opened.number(), &info) != 0) {
    return WrongSecretFile(file, absl::StrCat("cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) return WrongSecretFile(file, "is not a regular file");
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return WrongSecretFile(file, "can be accessed by other users");
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return WrongSecretFile(file, "belongs to another user");
  }
  std::string secret(max_bytes + 1, '\0');
  const ssize_t bytes = ::read(opened.number(), secret.data(), secret.size());
  if (bytes < 0)
    return WrongSecretFile(file, absl::StrCat("cannot be read: ", std::strerror(errno)));
  secret.resize(static_cast<size_t>(bytes));
  if (secret.size() > max_bytes)
    return WrongSecretFile(file, absl::StrCat("exceeds ", max_bytes, " bytes"));
  return secret;
}

std::string WeaknessOf(std::string_view secret) {
  // HMAC pads a key with zeros: such a file, which a loss of power can leave, has an empty key.
  if (secret.find('\0') != secret.npos) return "has a byte of value 0";
  return secret.find_first_not_of(secret.substr(0, 1)) == secret.npos ? "repeats one byte" : "";
}

StatusOr<std::shared_ptr<const Token>> Token::Load(const std::string& file) {
  SIMURGH_ASSIGN_OR_RETURN(std::string secret, ReadSecretFile(file, kMaxBytes));
  absl::StripTrailingAsciiWhitespace(&secret);
  if (secret.size() < kMinBytes) {
    return WrongSecretFile(
        file, absl::StrCat("has ", secret.size(), " bytes, expected at least ", kMinBytes));
  }
  if (const std::string weakness = WeaknessOf(secret); !weakness.empty()) {
    return WrongSecretFile(file, weakness);
  }
  return std::make_shared<const Token>(std::move(secret));
}

Token::Nonce Token::NewNonce() {
  Nonce nonce;
  const int made = RAND_bytes(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size());
  SIMURGH_CHECK_EQ(made, 1) << "RAND_bytes failed";
  return nonce;
}

Token::Proof Token::Prove(std::string_view label, const Nonce& peer, const Nonce& own,
                          std::string_view claims) const {
  std::string text(label);
  for (const Nonce* nonce : {&peer, &own}) {
    text.append(reinterpret_cast<const char*>(nonce->data()), nonce->size());
  }
  text.append(claims);
  Proof proof;
  const auto* const made = HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
                                reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                reinterpret_cast<unsigned char*>(proof.data()), nullptr);
  SIMURGH_CHECK(made != nullptr) << "HMAC failed";
  return proof;
}

bool Token::IsProof(std::span<const std::byte> proof, std::string_view label, const Nonce& peer,
                    const Nonce& own, std::string_view claims) const {
  const Proof expected = Prove(label, peer, own, claims);
  return proof.size() == expected.size() &&
         CRYPTO_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

Status TokenRefusal(std::string_view problem) {
  return WithCloseReason(
      absl::UnauthenticatedError(absl::StrCat("cluster.token_file: ", std::string(problem),
                                              "; use the same file for all daemons")),
      CloseReason::kRefused);
}

}  // namespace simurgh::rpc
