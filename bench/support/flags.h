#pragma once

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace simurgh::bench {

// The command line of a bench: its options, their defaults and --help, --version, --quick, --json.
class Flags {
 public:
  // What an option is without being given; `quick` replaces `normal` under --quick.
  struct Default {
    std::string normal;
    std::optional<std::string> quick = std::nullopt;
  };

  // Lifetime: the values passed to the members below must outlive Parse().
  Flags(std::string program, std::string about) : program_(std::move(program)), about_(about) {}

  // A comma-separated list of allowed words. `implicit` is the list of "--name" without "=LIST".
  void Words(const std::string& name, std::vector<std::string>& values,
             const std::vector<std::string>& allowed, Default standard, const std::string& help,
             std::optional<std::string> implicit = std::nullopt);

  // One number, or a comma-separated list, from `least` to `most`; integers may end in Ki or Mi.
  template <typename T>
  void Number(const std::string& name, T& value, double least, double most, Default standard,
              const std::string& help) {
    AddNumbers({name, "N", help, std::move(standard)}, {least, most, std::is_integral_v<T>},
               [&value](const std::vector<double>& numbers) {
                 if (numbers.size() == 1) value = static_cast<T>(numbers[0]);
                 return numbers.size() == 1;
               });
  }
  template <typename T>
  void Numbers(const std::string& name, std::vector<T>& values, double least, double most,
               Default standard, const std::string& help) {
    AddNumbers({name, "LIST", help, std::move(standard)}, {least, most, std::is_integral_v<T>},
               [&values](const std::vector<double>& numbers) {
                 values.assign(numbers.begin(), numbers.end());
                 return true;
               });
  }

  void File(const std::string& name, std::string& value, const std::string& help);
  void Switch(const std::string& name, bool& value, const std::string& help);

  // Sets all values. Ends the process: with 0 after --help or --version, with 2 after an error.
  void Parse(int argc, const char* const* argv);

  [[noreturn]] void Fail(const std::string& problem) const;

  bool quick() const { return quick_; }
  bool json() const { return json_; }

 private:
  struct Option {
    std::string name;
    std::string value_name;  // Empty: a switch.
    std::string help;
    Default standard;
    std::optional<std::string> implicit = std::nullopt;
    std::function<void(const std::string&)> set = nullptr;
    std::optional<std::string> given = std::nullopt;
  };
  struct Range {
    double least;
    double most;
    bool is_integer;
  };

  void AddNumbers(Option option, Range range, std::function<bool(const std::vector<double>&)> set);
  void PrintHelp() const;

  const std::string program_;
  const std::string about_;
  std::vector<Option> options_;
  bool quick_ = false;
  bool json_ = false;
};

}  // namespace simurgh::bench
