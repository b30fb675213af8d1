#include "services/serving/http_security.h"

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "rpc/token.h"

namespace simurgh {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Returns INVALID_ARGUMENT with the reason of OpenSSL's last error.
Status Wrong(const char* what, const std::string& file, std::string why,
             const std::string& remedy) {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  if (reason != nullptr) absl::StrAppend(&why, ": ", reason);
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(what, ": '", file, "' ", why, "; ", remedy));
}

// Checks that a certificate is valid now, and for TLS servers.
Status CheckCertificate(const std::string& file, X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return Wrong("certificate", file, "has expired", "issue a new one");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return Wrong("certificate", file, "is not valid yet", "check this machine's clock");
  }
  if (X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) != 1) {
    return Wrong("certificate", file, "is not meant for TLS servers",
                 "issue it with the extended key usage serverAuth");
  }
  return absl::OkStatus();
}

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
    const std::string weakness = rpc::WeaknessOf({token.data(), token.size()});
    if (!weakness.empty()) {
      return rpc::WrongSecretFile(file, absl::StrCat(weakness, " in line ", line));
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

StatusOr<std::shared_ptr<SSL_CTX>> LoadServerTls(const std::string& certificate,
                                                 const std::string& key,
                                                 const std::string& client_authority) {
  const std::shared_ptr<SSL_CTX> tls(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  SSL_CTX* const context = tls.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  // Connections are kept, so resumption would help little; with client certificates it needs care.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_num_tickets(context, 0);
  // Refuses encrypted keys, without a prompt for a password.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return -1; });
  ERR_clear_error();
  if (SSL_CTX_use_certificate_chain_file(context, certificate.c_str()) != 1) {
    return Wrong("certificate", certificate, "cannot be used",
                 "name a PEM file with the certificate, then intermediate ones");
  }
  SIMURGH_RETURN_IF_ERROR(CheckCertificate(certificate, SSL_CTX_get0_certificate(context)));
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return Wrong("key", key, "cannot be used",
                 "name the PEM file of the certificate's key, without a password");
  }
  if (client_authority.empty()) return tls;
  if (SSL_CTX_load_verify_locations(context, client_authority.c_str(), nullptr) != 1) {
    return Wrong("client_authority", client_authority, "cannot be used",
                 "name a PEM file with the certificates of authorities");
  }
  SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(client_authority.c_str()));
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return tls;
}

}  // namespace simurgh
