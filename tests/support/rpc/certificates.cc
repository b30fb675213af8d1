#include "tests/support/rpc/certificates.h"

#include <fstream>
#include <iterator>

#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "base/check.h"
#include "rpc/openssl.h"

namespace simurgh::rpc::testing {
namespace {

constexpr char kRoot[] = "authority";

struct Identity {
  OpenSslPointer<X509> certificate;
  OpenSslPointer<EVP_PKEY> key;
};

std::string Pem(const Identity& identity, bool key) {
  const OpenSslPointer<BIO> out(BIO_new(BIO_s_mem()));
  const int written = key ? PEM_write_bio_PrivateKey(out.get(), identity.key.get(), nullptr,
                                                     nullptr, 0, nullptr, nullptr)
                          : PEM_write_bio_X509(out.get(), identity.certificate.get());
  SIMURGH_CHECK(written == 1) << "cannot write PEM";
  return TextOf(out.get());
}

void Extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  SIMURGH_CHECK(extension != nullptr) << "bad extension " << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// issuer: null for a self-signed certificate.
Identity Make(const std::string& name, const CertificateOptions& options, const Identity* issuer) {
  static long serial = 0;
  Identity made{OpenSslPointer<X509>(X509_new()), OpenSslPointer<EVP_PKEY>(EVP_EC_gen("P-256"))};
  X509* const certificate = made.certificate.get();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  using std::chrono::seconds;
  X509_gmtime_adj(X509_getm_notBefore(certificate), seconds(options.begins).count());
  X509_gmtime_adj(X509_getm_notAfter(certificate), seconds(options.ends).count());
  X509_set_pubkey(certificate, made.key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509* const signer = issuer == nullptr ? certificate : issuer->certificate.get();
  X509_set_issuer_name(certificate, X509_get_subject_name(signer));
  const bool authority = issuer == nullptr || options.may_sign;
  Extend(certificate, signer, NID_basic_constraints,
         authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  Extend(certificate, signer, NID_key_usage,
         authority ? "critical,keyCertSign" : "critical,digitalSignature");
  // Python 3.13 requires these two.
  Extend(certificate, signer, NID_subject_key_identifier, "hash");
  if (issuer != nullptr) Extend(certificate, signer, NID_authority_key_identifier, "keyid:always");
  if (!authority) {
    Extend(certificate, signer, NID_ext_key_usage, options.usage);
    Extend(certificate, signer, NID_subject_alt_name, options.alternative_names);
  }
  EVP_PKEY* const key = issuer == nullptr ? made.key.get() : issuer->key.get();
  SIMURGH_CHECK(X509_sign(certificate, key, EVP_sha256()) > 0) << "cannot sign " << name;
  return made;
}

Identity Load(const std::filesystem::path& folder, const std::string& name) {
  const auto open = [&](const char* kind) {
    return OpenSslPointer<BIO>(BIO_new_file((folder / (name + kind)).c_str(), "rb"));
  };
  Identity identity;
  identity.certificate.reset(PEM_read_bio_X509(open(".pem").get(), nullptr, nullptr, nullptr));
  identity.key.reset(PEM_read_bio_PrivateKey(open(".key").get(), nullptr, nullptr, nullptr));
  SIMURGH_CHECK(identity.certificate != nullptr && identity.key != nullptr) << "no " << name;
  return identity;
}

}  // namespace

TestAuthority::TestAuthority() {
  std::string pattern = std::filesystem::temp_directory_path() / "simurgh-tls-XXXXXX";
  SIMURGH_CHECK(::mkdtemp(pattern.data()) != nullptr) << "no folder " << pattern;
  folder_ = pattern;
  // Distinct names, so that another authority is unknown, not only its signature wrong.
  const Identity root = Make("authority of " + pattern, {}, nullptr);
  Write(std::string(kRoot) + ".pem", Pem(root, false));
  Write(std::string(kRoot) + ".key", Pem(root, true));
}

TestAuthority::~TestAuthority() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

TlsOptions TestAuthority::Issue(const std::string& name, const CertificateOptions& options,
                                const std::string& issuer) {
  const Identity signer = Load(folder_, issuer.empty() ? kRoot : issuer);
  const Identity made = Make(name, options, &signer);
  const std::string behind = issuer.empty() ? "" : Read(folder_ / (issuer + ".pem"));
  return {.certificate_file = Write(name + ".pem", Pem(made, false) + behind),
          .key_file = Write(name + ".key", Pem(made, true)),
          .authority_file = certificate_file()};
}

std::shared_ptr<const TlsContext> TestAuthority::Context(const std::string& name,
                                                         const CertificateOptions& options) {
  auto context = TlsContext::Load(Issue(name, options));
  SIMURGH_CHECK(context.ok()) << context.status().ToString();
  return *std::move(context);
}

std::string TestAuthority::Write(const std::string& name, const std::string& text) const {
  const std::filesystem::path path = folder_ / name;
  std::ofstream out(path, std::ios::binary);
  out << text;
  SIMURGH_CHECK(out.good()) << "cannot write " << path.string();
  return path;
}

std::string TestAuthority::Read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  SIMURGH_CHECK(in.is_open()) << "no file " << file;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace simurgh::rpc::testing
