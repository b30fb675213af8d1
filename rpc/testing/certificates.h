#pragma once

// Certificates for tests, made on the spot.

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "rpc/tls.h"

namespace simurgh::rpc::testing {

struct CertificateOptions {
  std::string alternative_names = "DNS:localhost,IP:127.0.0.1,IP:::1";
  std::string usage = "serverAuth,clientAuth";
  std::chrono::hours begins{-1};  // From now on.
  std::chrono::hours ends{24};
  bool may_sign = false;  // An intermediate authority.
};

// An authority with a folder of its own, which goes with it.
class TestAuthority {
 public:
  TestAuthority();
  TestAuthority(const TestAuthority&) = delete;
  TestAuthority& operator=(const TestAuthority&) = delete;
  ~TestAuthority();

  // Issues a certificate with a new key and writes both. `name` tells the files apart. With
  // `issuer`, the name of an earlier certificate, that one signs, and stands behind the new one in
  // its file.
  TlsOptions Issue(const std::string& name, const CertificateOptions& options = {},
                   const std::string& issuer = "");

  // The same, ready for use; what is wrong with it fails the check.
  std::shared_ptr<const TlsContext> Context(const std::string& name,
                                            const CertificateOptions& options = {});

  // Writes a file into the folder and gives its path.
  std::string Write(const std::string& name, const std::string& text) const;
  static std::string Read(const std::string& file);

  std::string certificate_file() const { return folder_ / "authority.pem"; }

 private:
  std::filesystem::path folder_;
};

}  // namespace simurgh::rpc::testing
