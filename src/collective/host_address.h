#pragma once

#include <string>

#include "simurgh/base/status.h"

namespace simurgh {

struct HostAddress {
  std::string number;  // The numeric address as text.
  bool is_loopback = false;
};

// Resolves a host name. Gloo's own resolution reads invalid memory if the name is unknown.
StatusOr<HostAddress> Resolve(const std::string& host);

}  // namespace simurgh
