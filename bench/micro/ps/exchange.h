#pragma once

#include <string>
#include <vector>

namespace simurgh::bench {

// A child process that answers PullRows and PushRows with as many bytes as embedding-ps, from
// untouched memory. Measures the transport alone.

std::vector<std::string> ExchangeArguments(const std::string& address);
bool IsExchange(const std::vector<std::string>& arguments);
// Prints the address it listens on as a line, and serves until its standard input ends. Returns the
// exit code.
int RunExchange(const std::vector<std::string>& arguments);

}  // namespace simurgh::bench
