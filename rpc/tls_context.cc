#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fstream>
#include <utility>
#include <vector>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "rpc/close_reason.h"
#include "rpc/openssl.h"
#include "rpc/tls.h"
#include "simurgh/base/check.h"

namespace simurgh::rpc {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

using Certificates = std::vector<OpenSslPointer<X509>>;

Status Wrong(const char* what, const std::string& file, const std::string& why,
             const std::string& remedy) {
  return absl::InvalidArgumentError(absl::StrCat(what, ": '", file, "' ", why, "; ", remedy));
}

StatusOr<std::string> ReadFile(const char* what, const std::string& file) {
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  if (in) in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad()) {
    return Wrong(what, file, absl::StrCat("cannot be read: ", std::strerror(errno)),
                 "name a PEM file that this process may read");
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes) {
    return Wrong(what, file, absl::StrCat("has more than ", kMaxFileBytes, " bytes"),
                 "name a PEM file");
  }
  return text;
}

OpenSslPointer<BIO> Reader(const std::string& text) {
  return OpenSslPointer<BIO>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

StatusOr<Certificates> ReadCertificates(const char* what, const std::string& file) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, ReadFile(what, file));
  const OpenSslPointer<BIO> reader = Reader(text);
  Certificates certificates;
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(one);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty()) {
    return Wrong(what, file, "holds no certificate in PEM form",
                 "name a file with -----BEGIN CERTIFICATE-----");
  }
  if (!at_end) {
    return Wrong(what, file, absl::StrCat("is damaged after certificate ", certificates.size()),
                 "copy the file again");
  }
  return certificates;
}

StatusOr<OpenSslPointer<EVP_PKEY>> ReadKey(const std::string& file) {
  SIMURGH_ASSIGN_OR_RETURN(const std::string text, ReadFile("key", file));
  // Refuses encrypted keys, without a prompt for a password.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  OpenSslPointer<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Wrong("key", file, "holds no private key in PEM form, or an encrypted one",
                 "decrypt it with 'openssl pkey', readable only by the daemons' user");
  }
  return key;
}

std::string Text(const ASN1_TIME* time) {
  const OpenSslPointer<BIO> out(BIO_new(BIO_s_mem()));
  ASN1_TIME_print(out.get(), time);
  return TextOf(out.get());
}

Status CheckDates(const char* what, const std::string& file, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    return Wrong(what, file, absl::StrCat("expired at ", Text(X509_get0_notAfter(certificate))),
                 "issue a new one");
  }
  if (X509_cmp_current_time(X509_get0_notBefore(certificate)) > 0) {
    return Wrong(what, file,
                 absl::StrCat("is not valid before ", Text(X509_get0_notBefore(certificate))),
                 "check this machine's clock");
  }
  return absl::OkStatus();
}

// Both purposes: a worker is a client of servers and a server of trainers.
Status CheckPurpose(const std::string& file, X509* certificate) {
  for (const int purpose : {X509_PURPOSE_SSL_SERVER, X509_PURPOSE_SSL_CLIENT}) {
    if (X509_check_purpose(certificate, purpose, 0) == 1) continue;
    return Wrong("certificate", file,
                 absl::StrCat("is not meant for TLS ",
                              purpose == X509_PURPOSE_SSL_SERVER ? "servers" : "clients"),
                 "issue it with the extended key usages serverAuth and clientAuth");
  }
  return absl::OkStatus();
}

// Checks the first certificate against the authorities; the others are intermediate.
Status CheckChain(const TlsOptions& options, const Certificates& chain,
                  const Certificates& authorities) {
  const OpenSslPointer<X509_STORE> store(X509_STORE_new());
  for (const auto& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  const OpenSslPointer<STACK_OF(X509)> between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between.get(), chain[i].get());
  const OpenSslPointer<X509_STORE_CTX> check(X509_STORE_CTX_new());
  X509_STORE_CTX_init(check.get(), store.get(), chain[0].get(), between.get());
  const bool trusted = X509_verify_cert(check.get()) == 1;
  ERR_clear_error();
  if (trusted) return absl::OkStatus();
  const char* const why = X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get()));
  return Wrong(
      "certificate", options.certificate_file,
      absl::StrCat("is not trusted by '", options.authority_file, "': ", why),
      "name the authority that issued it, and append intermediate certificates to the file");
}

// OpenSSL may still refuse the parts, e.g. keys too weak for its policy.
Status Use(SSL_CTX* context, const TlsOptions& options, const Certificates& chain, EVP_PKEY* key,
           const Certificates& authorities) {
  bool used = SSL_CTX_use_certificate(context, chain[0].get()) == 1;
  for (size_t i = 1; used && i < chain.size(); ++i) {
    used = SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  }
  used = used && SSL_CTX_use_PrivateKey(context, key) == 1;
  for (const auto& authority : authorities) {
    used = used && X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) == 1;
  }
  if (used) return absl::OkStatus();
  const char* const why = ERR_reason_error_string(ERR_peek_last_error());
  const std::string reason = why == nullptr ? "unknown reason" : why;
  ERR_clear_error();
  return Wrong("certificate", options.certificate_file,
               absl::StrCat("is refused by OpenSSL: ", reason),
               "use an ECDSA key of 256 bits or an RSA key of at least 2048 bits");
}

// Whether a DNS name equals the pattern, or its part after the first label the part after "*.".
bool Matches(const std::string& pattern, const std::string& name) {
  if (!pattern.starts_with("*.")) return absl::EqualsIgnoreCase(pattern, name);
  const size_t dot = name.find('.');
  return dot != 0 && dot != std::string::npos &&
         absl::EqualsIgnoreCase(pattern.substr(1), name.substr(dot));
}

}  // namespace

TlsContext::TlsContext(const TlsOptions& options)
    : options_(options), native_(SSL_CTX_new(TLS_method()), &SSL_CTX_free) {
  SIMURGH_CHECK(native_ != nullptr) << "SSL_CTX_new failed";
  SSL_CTX_set_min_proto_version(native(), TLS1_3_VERSION);
  SSL_CTX_set_verify(native(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // Connections are few and long, so session resumption would not help.
  SSL_CTX_set_session_cache_mode(native(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(native(), 0);
}

Status TlsContext::CheckRole(const std::string& role, std::span<const std::string> names) const {
  const auto& allowed = options_.allowed_names;
  if (std::ranges::all_of(allowed, [](const auto& entry) { return entry.second.empty(); })) {
    return absl::OkStatus();
  }
  const auto found = allowed.find(role);
  if (found != allowed.end()) {
    if (found->second.empty()) return absl::OkStatus();
    for (const std::string& pattern : found->second) {
      if (std::ranges::any_of(names, [&](const auto& name) { return Matches(pattern, name); })) {
        return absl::OkStatus();
      }
    }
  }
  return WithCloseReason(
      absl::UnauthenticatedError(absl::StrCat(
          "TLS: a certificate for '", absl::StrJoin(names, ", "), "' does not permit the role '",
          role, "'; issue one with a permitted name, or extend rpc.tls.allowed_names")),
      CloseReason::kTls);
}

StatusOr<std::shared_ptr<const TlsContext>> TlsContext::Load(const TlsOptions& options) {
  SIMURGH_ASSIGN_OR_RETURN(const Certificates chain,
                           ReadCertificates("certificate", options.certificate_file));
  SIMURGH_ASSIGN_OR_RETURN(const auto key, ReadKey(options.key_file));
  SIMURGH_ASSIGN_OR_RETURN(const Certificates authorities,
                           ReadCertificates("authority", options.authority_file));
  SIMURGH_RETURN_IF_ERROR(CheckDates("certificate", options.certificate_file, chain[0].get()));
  for (const auto& authority : authorities) {
    SIMURGH_RETURN_IF_ERROR(CheckDates("authority", options.authority_file, authority.get()));
  }
  if (X509_check_private_key(chain[0].get(), key.get()) != 1) {
    ERR_clear_error();
    return Wrong("key", options.key_file,
                 absl::StrCat("does not match certificate '", options.certificate_file, "'"),
                 "name the key of that certificate");
  }
  SIMURGH_RETURN_IF_ERROR(CheckPurpose(options.certificate_file, chain[0].get()));
  SIMURGH_RETURN_IF_ERROR(CheckChain(options, chain, authorities));
  auto context = std::make_shared<TlsContext>(options);
  SIMURGH_RETURN_IF_ERROR(Use(context->native(), options, chain, key.get(), authorities));
  return context;
}

}  // namespace simurgh::rpc
