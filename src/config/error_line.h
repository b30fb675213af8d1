#pragma once

#include <string>

namespace simurgh {

// "<place>: <key>: <what>; <remedy>", without the key if it is empty. Always one line of moderate
// length, whatever the parts quote from a file: control characters become '?', and what is endless
// is cut.
std::string ErrorLine(const std::string& place, const std::string& key, const std::string& what,
                      const std::string& remedy);

}  // namespace simurgh
