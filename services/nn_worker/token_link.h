#pragma once

#include <optional>
#include <string>

#include "simurgh/config/cluster_config.h"

namespace simurgh {

// A symbolic link in checkpoint.directory to cluster.token_file, from which `simurgh checkpoint`
// learns the token of a training by `simurgh train`. The file itself stays where only its owner
// can read it. Removed by the destructor.
class TokenLink {
 public:
  // Without a token there is no link, and an older one is removed. A failure is ignored: the
  // command then needs --set cluster.token_file.
  explicit TokenLink(const ClusterConfig& config);
  ~TokenLink();
  TokenLink(const TokenLink&) = delete;
  TokenLink& operator=(const TokenLink&) = delete;

 private:
  const std::string path_;
};

// The token file that the link names, if there is one that exists. directory: may be empty.
std::optional<std::string> FindTokenLink(const std::string& directory);

}  // namespace simurgh
