#pragma once

#include <cstdio>
#include <string>
#include <vector>

namespace simurgh::testing {

// An S3 server on the loopback interface, with a bucket; a process of its own. Its key is put into
// the environment of this program. Skips the case where its program is not installed.
//
// Threads: one owner.
class S3Server {
 public:
  // folder: for the server's data. files: names of files in it, which are put into the bucket.
  explicit S3Server(const std::string& folder, const std::vector<std::string>& files = {});
  ~S3Server();
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  // The URI of a file among the first ones, or of another object. name: begins with a slash, or is
  // empty for the folder of the files.
  std::string Uri(const std::string& name = "") const;
  // The same by a proxy that makes faults.
  std::string FaultyUri(const std::string& name = "") const;
  // Decides about the next requests to the proxy: see s3_proxy.py.
  void MakeFaults(const std::string& kind, int count, int seed = 0) const;
  const std::string& port() const { return port_; }

 private:
  const std::string folder_;
  FILE* output_ = nullptr;
  std::string uri_;
  std::string port_;
  std::string proxy_port_;
};

}  // namespace simurgh::testing
