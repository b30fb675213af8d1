#include <string>

#include <catch2/catch.hpp>

#include "rpc/tls.h"
#include "tests/support/rpc/certificates.h"

namespace simurgh::rpc {
namespace {

using std::chrono::hours;
using testing::CertificateOptions;
using testing::TestAuthority;

// The error names the kind of file, the file and a remedy.
void CheckRefused(const TlsOptions& options, const std::string& what, const std::string& file,
                  const std::string& why) {
  const Status status = TlsContext::Load(options).status();
  INFO(status.ToString());
  CHECK(absl::IsInvalidArgument(status));
  const std::string message(status.message());
  CHECK_THAT(message, Catch::StartsWith(what + ": '" + file + "' "));
  CHECK_THAT(message, Catch::Contains(why));
  CHECK_THAT(message, Catch::Contains("; "));
}

TEST_CASE("a certificate is accepted, also through an intermediate one", "[tls]") {
  TestAuthority authority;
  CHECK(TlsContext::Load(authority.Issue("direct")).status() == absl::OkStatus());
  authority.Issue("between", {.may_sign = true});
  TlsOptions options = authority.Issue("leaf", {}, "between");
  CHECK(TlsContext::Load(options).status() == absl::OkStatus());

  // Without the intermediate certificate the chain is broken.
  const std::string chain = authority.Read(options.certificate_file);
  const std::string end = "-----END CERTIFICATE-----\n";
  options.certificate_file =
      authority.Write("leaf-alone.pem", chain.substr(0, chain.find(end) + end.size()));
  CheckRefused(options, "certificate", options.certificate_file, "is not trusted by");
}

TEST_CASE("files that are missing, damaged or of another kind are named", "[tls]") {
  TestAuthority authority;
  const TlsOptions good = authority.Issue("good");
  const std::string no_file = good.key_file + ".none";
  const std::string garbage = authority.Write("garbage.pem", "no PEM at all\n");
  struct {
    const char* what;
    std::string TlsOptions::* field;
    const char* why;
  } const files[] = {{"certificate", &TlsOptions::certificate_file, "no certificate"},
                     {"key", &TlsOptions::key_file, "no private key"},
                     {"authority", &TlsOptions::authority_file, "no certificate"}};
  for (const auto& [what, field, why] : files) {
    TlsOptions bad = good;
    bad.*field = no_file;
    CheckRefused(bad, what, no_file, "No such file");
    bad.*field = garbage;
    CheckRefused(bad, what, garbage, why);
    bad.*field = "/";
    CheckRefused(bad, what, "/", "cannot be read");
  }
  TlsOptions swapped = good;
  std::swap(swapped.certificate_file, swapped.key_file);
  CheckRefused(swapped, "certificate", good.key_file, "no certificate");
  TlsOptions cut = good;
  cut.authority_file = authority.Write(
      "cut.pem", authority.Read(good.authority_file) + "-----BEGIN CERTIFICATE-----\nMIIB\n");
  CheckRefused(cut, "authority", cut.authority_file, "damaged after certificate 1");
}

TEST_CASE("files that do not match are named", "[tls]") {
  TestAuthority authority, stranger;
  TlsOptions mixed = authority.Issue("one");
  mixed.key_file = authority.Issue("two").key_file;
  CheckRefused(mixed, "key", mixed.key_file, "does not match certificate");
  TlsOptions foreign = authority.Issue("three");
  foreign.authority_file = stranger.certificate_file();
  CheckRefused(foreign, "certificate", foreign.certificate_file, "is not trusted by");
}

TEST_CASE("expired, future and wrong-purpose certificates are refused", "[tls]") {
  TestAuthority authority;
  const TlsOptions old = authority.Issue("old", {.begins = hours(-48), .ends = hours(-24)});
  CheckRefused(old, "certificate", old.certificate_file, "expired at");
  const TlsOptions early = authority.Issue("early", {.begins = hours(24), .ends = hours(48)});
  CheckRefused(early, "certificate", early.certificate_file, "is not valid before");
  const TlsOptions server = authority.Issue("server", {.usage = "serverAuth"});
  CheckRefused(server, "certificate", server.certificate_file, "not meant for TLS clients");
  const TlsOptions client = authority.Issue("client", {.usage = "clientAuth"});
  CheckRefused(client, "certificate", client.certificate_file, "not meant for TLS servers");
}

}  // namespace
}  // namespace simurgh::rpc
