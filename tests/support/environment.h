#pragma once

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace simurgh::testing {

// Changes variables of the environment, and restores them in the destructor.
//
// Threads: one, while no other one reads the environment.
class Environment {
 public:
  Environment() = default;
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    for (const auto& [name, value] : old_) Put(name, value);
  }

  // nullopt: removes the variable.
  void Set(const std::string& name, const std::optional<std::string>& value) {
    const char* const now = std::getenv(name.c_str());
    old_.try_emplace(name, now == nullptr ? std::nullopt : std::optional<std::string>(now));
    Put(name, value);
  }

 private:
  static void Put(const std::string& name, const std::optional<std::string>& value) {
    if (value.has_value()) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }

  std::map<std::string, std::optional<std::string>> old_;
};

}  // namespace simurgh::testing
