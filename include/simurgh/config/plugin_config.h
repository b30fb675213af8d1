#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace simurgh {

// A shared object that processes cells; see simurgh/data/plugin.h.
struct PluginConfig {
  std::string path;  // Empty: none.
  std::vector<std::string> parameters;
  uint32_t max_ids = 1'024;  // Per sample; features only.
};

}  // namespace simurgh
