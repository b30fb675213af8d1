#pragma once

#include <string>

#include "simurgh/base/status.h"

namespace simurgh {

struct HostAddress {
  std::string number;  // As text.
  bool is_loopback = false;
};

// Gloo does this, too, but reads memory at random when a name is unknown.
StatusOr<HostAddress> Resolve(const std::string& host);

}  // namespace simurgh
