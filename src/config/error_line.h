#pragma once

#include <string>

namespace simurgh {

// "<place>: <key>: <what>; <remedy>", without an empty key. One line of limited length: control
// characters become '?', and long parts are cut.
std::string ErrorLine(const std::string& place, const std::string& key, const std::string& what,
                      const std::string& remedy);

}  // namespace simurgh
