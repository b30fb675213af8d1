#include "tests/support/s3_server.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"
#include "tests/support/http_get.h"
#include "tests/support/python.h"
#include "tests/support/skip.h"

namespace simurgh::testing {

S3Server::S3Server(const std::string& folder, const std::vector<std::string>& files)
    : folder_(folder) {
  constexpr char kWeed[] = "build/python/bin/weed";
  if (!std::filesystem::exists(kWeed)) SIMURGH_SKIP("tests/requirements.txt is not installed");
  ::setenv("AWS_ACCESS_KEY_ID", "key", 1);
  ::setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
  ::setenv("no_proxy", "127.0.0.1", 1);
  std::string command =
      "exec " + Python("pyarrow") + " tests/support/s3_server.py " + kWeed + " " + folder_;
  for (const std::string& file : files) command += " '" + file + "'";
  output_ = ::popen(command.c_str(), "r");
  SIMURGH_CHECK(output_ != nullptr);
  const auto line = [&] {
    char text[256] = "";
    if (std::fgets(text, sizeof(text), output_) == nullptr) return std::string();
    const std::string all = text;
    return all.substr(0, all.find('\n'));
  };
  uri_ = line();
  proxy_port_ = line();
  SIMURGH_CHECK(!proxy_port_.empty()) << "the S3 server has not started: see " << folder_;
  const size_t begin = uri_.find("127.0.0.1:") + 10;
  port_ = uri_.substr(begin, uri_.find('&') - begin);
}

S3Server::~S3Server() {
  std::ofstream(folder_ + "/done").put('\n');
  if (output_ != nullptr) ::pclose(output_);
}

std::string S3Server::Uri(const std::string& name) const {
  return std::string(uri_).insert(uri_.find('?'), name);
}

std::string S3Server::FaultyUri(const std::string& name) const {
  std::string uri = Uri(name);
  return uri.replace(uri.find(":" + port_) + 1, port_.size(), proxy_port_);
}

void S3Server::MakeFaults(const std::string& kind, int count, int seed) const {
  const std::string path =
      "/-/" + kind + "/" + std::to_string(count) + "/" + std::to_string(seed) + "/";
  SIMURGH_CHECK(!HttpGet("127.0.0.1:" + proxy_port_, path).empty());
}

}  // namespace simurgh::testing
