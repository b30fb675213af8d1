#pragma once

#include <string>
#include <vector>

#include "config/yaml_node.h"
#include "simurgh/base/status.h"

namespace simurgh {

// Collects what is wrong with a document, so that one run shows several errors.
class Diagnostics {
 public:
  // `root` must outlive this object and not change.
  explicit Diagnostics(const YamlNode& root) : root_(root) {}

  // An error at `path`, a dotted key with indexes for list elements. Its place is that of the
  // deepest part of the path that the document has, so a missing key is reported at the section it
  // is missing from.
  void Report(const std::string& path, const std::string& what, const std::string& remedy);
  void ReportAt(const std::string& place, const std::string& path, const std::string& what,
                const std::string& remedy);

  // "file:line: path", for errors that show only later.
  std::string Where(const std::string& path) const;

  bool ok() const { return errors_.empty(); }

  // INVALID_ARGUMENT with one line an error, the first ten of them; or ok.
  Status status() const;

 private:
  const YamlNode& root_;
  std::vector<std::string> errors_;
};

}  // namespace simurgh
