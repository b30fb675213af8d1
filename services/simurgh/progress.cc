#include "services/simurgh/progress.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

// Returns the value of " key=value " in a line; empty: none.
std::string ValueOf(const std::string& line, const std::string& key) {
  const std::string start = absl::StrCat(" ", key, "=");
  const size_t at = line.find(start);
  if (at == std::string::npos) return "";
  const size_t begin = at + start.size();
  return line.substr(begin, line.find(' ', begin) - begin);
}

// Returns a duration such as "50s", "1m20s" or "3h05m".
std::string TimeText(const std::string& seconds) {
  uint64_t all = 0;
  if (!absl::SimpleAtoi(seconds, &all)) return "unknown";
  if (all < 60) return absl::StrCat(all, "s");
  if (all < 3'600) return absl::StrFormat("%dm%02ds", all / 60, all % 60);
  return absl::StrFormat("%dh%02dm", all / 3'600, all / 60 % 60);
}

// Returns the text for a terminal of a log's line of progress.
std::string ProgressText(const std::string& line) {
  const std::string steps = ValueOf(line, "of_steps");
  // One of them is present, or none for a model of two towers.
  const std::string rmse = ValueOf(line, "rmse");
  const std::string auc = ValueOf(line, "auc");
  return absl::StrCat("step=", ValueOf(line, "step"), steps.empty() ? "" : "/", steps,
                      " samples_per_s=", ValueOf(line, "samples_per_s"),
                      " loss=", ValueOf(line, "loss"), rmse.empty() ? "" : " rmse=", rmse,
                      auc.empty() ? "" : " auc=", auc,
                      " eta=", TimeText(ValueOf(line, "seconds_left")));
}

}  // namespace

LogView::LogView(const std::string& trainer, const std::vector<std::string>& others) {
  const auto open = [](const std::string& path) {
    return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  };
  logs_.push_back({.file = open(trainer)});
  for (const std::string& other : others) {
    logs_.push_back({.file = open(other), .has_warnings_only = true});
  }
}

void LogView::Show() {
  const std::string before = progress_;
  for (Log& log : logs_) {
    char chunk[4096];
    for (ssize_t bytes = 0; (bytes = ::read(log.file.number(), chunk, sizeof(chunk))) > 0;) {
      log.incomplete.append(chunk, static_cast<size_t>(bytes));
    }
    size_t start = 0;
    for (size_t end = 0; (end = log.incomplete.find('\n', start)) != std::string::npos;
         start = end + 1) {
      ShowLine(log, log.incomplete.substr(start, end - start));
    }
    log.incomplete.erase(0, start);
  }
  if (!progress_.empty() && (!line_.is_open() || progress_ != before)) line_.Rewrite(progress_);
}

void LogView::ShowLine(const Log& log, const std::string& line) {
  if (log.has_warnings_only && line.find(" warn ") == std::string::npos) return;
  if (line.find(" progress: ") != std::string::npos) {
    // With several labels, the line of all labels is shown.
    if (!ValueOf(line, "label").empty()) return;
    if (line_.is_terminal()) {
      progress_ = ProgressText(line);
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (shown_ && now - *shown_ < std::chrono::seconds(10)) return;
    shown_ = now;
  }
  line_.Erase();
  std::cerr << line << "\n";
}

std::string LastLines(const std::string& path, size_t lines) {
  constexpr std::streamoff kMaxBytes = 16'384;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kMaxBytes));
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (text.ends_with('\n')) text.pop_back();
  const std::vector<std::string> all = absl::StrSplit(text, '\n');
  const auto first = all.end() - static_cast<ptrdiff_t>(std::min(lines, all.size()));
  return absl::StrCat(absl::StrJoin(first, all.end(), "\n"), "\n");
}

}  // namespace simurgh
