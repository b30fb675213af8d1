#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <nlohmann/json.hpp>

#include "base/file_descriptor.h"
#include "base/status.h"
#include "base/text.h"

namespace simurgh {

// Returns a size such as "1.5 GiB".
inline std::string BytesText(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1000 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 || bytes >= 100 ? 0 : 1, bytes, kUnits[unit]);
}

// Adds the option --json of commands that print data.
inline void AddJsonOption(boost::program_options::options_description& options, bool* json) {
  options.add_options()("json", boost::program_options::bool_switch(json),
                        "print the result as one JSON object on a line");
}

// Returns the word by which a shell has started this program: "simurgh", or a path, quoted.
std::string OwnCommand();

// Prints one line of JSON. Bytes that are not UTF-8 become U+FFFD.
inline void PrintJson(const nlohmann::ordered_json& value, std::ostream& out = std::cout) {
  out << value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
}

// Returns a result as JSON. text: "KEY=VALUE ..." of a training or a test, after lines
// "label=NAME KEY=VALUE ..." and "warning: ...". Numbers become numbers, and `undefined` null.
inline nlohmann::ordered_json ResultJson(const std::string& text) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  const auto add = [](const std::string& words, nlohmann::ordered_json& to) {
    for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> pair =
          absl::StrSplit(word, absl::MaxSplits('=', 1));
      const auto& [key, value] = pair;
      double number = 0;
      int64_t whole = 0;
      if (value == "undefined") {
        to[key] = nullptr;
      } else if (absl::SimpleAtoi(value, &whole)) {
        to[key] = whole;
      } else if (absl::SimpleAtod(value, &number)) {
        to[key] = number;
      } else {
        to[key] = value;
      }
    }
  };
  const std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    constexpr std::string_view kLabel = "label=";
    constexpr std::string_view kWarning = "warning: ";
    if (line.starts_with(kWarning)) {
      all["warnings"].push_back(line.substr(kWarning.size()));
    } else if (line.starts_with(kLabel)) {
      // A name may have blanks.
      const size_t end =
          std::min({line.rfind(" loss="), line.rfind(" test_auc="), line.rfind(" before_auc=")});
      nlohmann::ordered_json& one = all["labels"].emplace_back();
      one["label"] = line.substr(kLabel.size(), end - kLabel.size());
      add(line.substr(end), one);
    } else {
      add(line, all);
    }
  }
  return all;
}

// A file whose name is PATH.tmp-PID until it is complete. The destructor removes the file, and so
// do SIGINT, SIGTERM and SIGHUP, which then end the process.
//
// Threads: one owner. At most one at a time in the process.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(std::string path);
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;
  ~UnfinishedFile();

  const std::string& name() const { return name_; }
  // Gives the file its path. Errors: see rename().
  Status Finish();

 private:
  const std::string path_;
  const std::string name_;
};

// Checks that an output would not replace one of the files that are read.
// Errors: INVALID_ARGUMENT.
Status CheckReplacesNone(const std::vector<std::string>& files, const std::string& output,
                         const char* option = "--output");

// Rows of text that go to a file or to stdout. A file gets its name when it is complete; an
// unfinished one is removed.
//
// Threads: one owner.
class OutputFile {
 public:
  // path: "-" for stdout. option: names the path in errors. Errors: those of the system calls.
  static StatusOr<std::unique_ptr<OutputFile>> Open(const std::string& path,
                                                    const char* option = "--output");

  // Errors: CANCELLED if the reader of a pipe has ended; those of write(), naming the path.
  Status Append(std::string_view text);
  // Writes the rest and gives the file its name. Must be the last call.
  Status Finish();

 private:
  OutputFile(std::string path, std::unique_ptr<UnfinishedFile> unfinished, FileDescriptor file)
      : path_(std::move(path)), unfinished_(std::move(unfinished)), file_(std::move(file)) {}
  Status Write();

  const std::string path_;
  const std::unique_ptr<UnfinishedFile> unfinished_;  // Null: the output is written in place.
  FileDescriptor file_;
  std::string buffer_;
};

}  // namespace simurgh
