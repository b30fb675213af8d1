#pragma once

// Generates certificates for tests.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "rpc/tls.h"

namespace simurgh::rpc::testing {

struct CertificateOptions {
  std::string alternative_names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  std::string usage = "serverAuth,clientAuth";
  std::chrono::hours begins{-1};  // Relative to now.
  std::chrono::hours ends{24};
  bool may_sign = false;  // An intermediate authority.
};

// An authority and its folder, which the destructor removes.
class TestAuthority {
 public:
  TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;
  ~TestAuthority();

  // Issues a certificate with a new key and writes both to files with this name. issuer: the name
  // of an earlier certificate that signs this one and is appended to its file; empty: the
  // authority.
  TlsOptions Issue(const std::string& name, const CertificateOptions& options = {},
                   const std::string& issuer = "");

  // Issues and loads a certificate. Fails a check on errors.
  std::shared_ptr<const TlsContext> Context(const std::string& name,
                                            const CertificateOptions& options = {});

  // Writes a file into the folder and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;
  static std::string Read(const std::string& file);

  std::string certificate_file() const { return folder_ / "authority.pem"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace simurgh::rpc::testing
