#include "services/nn_worker/token_link.h"

#include <filesystem>
#include <system_error>

namespace simurgh {
namespace {

std::string PathIn(const std::string& directory) { return directory + "/token"; }

void Remove(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_symlink(path, ignored)) std::filesystem::remove(path, ignored);
}

}  // namespace

TokenLink::TokenLink(const ClusterConfig& config) : path_(PathIn(config.checkpoint.directory)) {
  Remove(path_);
  if (config.rpc.token_file.empty()) return;
  std::error_code ignored;
  std::filesystem::create_symlink(std::filesystem::absolute(config.rpc.token_file, ignored), path_,
                                  ignored);
}

TokenLink::~TokenLink() { Remove(path_); }

std::optional<std::string> FindTokenLink(const std::string& directory) {
  if (directory.empty()) return std::nullopt;
  std::error_code ignored;
  std::string target = std::filesystem::read_symlink(PathIn(directory), ignored).string();
  if (target.empty() || !std::filesystem::exists(target, ignored)) return std::nullopt;
  return target;
}

}  // namespace simurgh
