#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "config/nearest.h"
#include "config/yaml_node.h"

namespace simurgh {

// Returns "<place>: <key>: <what>; <remedy>", without an empty key. The line has a limited length:
// control characters become '?', and long parts are cut.
std::string ErrorLine(const std::string& place, const std::string& key, const std::string& what,
                      const std::string& remedy);

// Collects the errors of a document, so that one run shows several.
class Diagnostics {
 public:
  // `root` must outlive this object and not change.
  explicit Diagnostics(const YamlNode& root) : root_(root) {}

  // path: a dotted key with indexes for list elements. The place of the error is that of the
  // deepest part of the path in the document: for a missing key, its section.
  void Report(const std::string& path, const std::string& what, const std::string& remedy);
  void ReportAt(const std::string& place, const std::string& path, const std::string& what,
                const std::string& remedy);

  // Reports a name that is not one of `known` and returns whether it is. noun: "table".
  bool CheckKnown(const std::string& path, const std::string& noun, const std::string& name,
                  const std::vector<std::string>& known);

  // Reports the elements of a list with the name of an earlier element.
  template <class List, class NameOf, class PathOf>
  void CheckDistinct(const List& list, NameOf name_of, const PathOf& path_of) {
    std::map<std::string, size_t> first;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string& name = std::invoke(name_of, list[i]);
      const auto [entry, is_new] = first.emplace(name, i);
      const bool is_bad =
          name.empty() && !ok();  // A bad name was reported, and is not in the list.
      if (is_new || is_bad) continue;
      Report(path_of(i), "'" + name + "' repeats " + path_of(entry->second), "use each name once");
    }
  }

  // Returns "file:line: path", for errors found after reading.
  std::string Where(const std::string& path) const;

  bool ok() const { return errors_.empty(); }

  // Returns INVALID_ARGUMENT with one line for each of the first ten errors, or ok.
  Status status() const;

 private:
  const YamlNode& root_;
  std::vector<std::string> errors_;
};

}  // namespace simurgh
