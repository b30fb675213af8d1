#include "services/simurgh/log_view.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <iterator>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

constexpr char kEraseLine[] = "\r\x1b[K";

size_t TerminalColumns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

}  // namespace

LogView::LogView(const std::string& path)
    : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)),
      on_terminal_(::isatty(STDERR_FILENO) == 1) {}

void LogView::Show() {
  char chunk[4096];
  for (ssize_t bytes = 0; (bytes = ::read(file_.number(), chunk, sizeof(chunk))) > 0;) {
    incomplete_.append(chunk, static_cast<size_t>(bytes));
  }
  size_t start = 0;
  for (size_t end = 0; (end = incomplete_.find('\n', start)) != std::string::npos;
       start = end + 1) {
    ShowLine(incomplete_.substr(start, end - start));
  }
  incomplete_.erase(0, start);
  std::cerr.flush();
}

void LogView::ShowLine(const std::string& line) {
  const size_t progress = on_terminal_ ? line.find("progress: ") : std::string::npos;
  // With several labels, the line of all labels stays.
  if (progress != std::string::npos && line.find(" label=") != std::string::npos) return;
  if (may_overwrite_) std::cerr << kEraseLine;
  may_overwrite_ = progress != std::string::npos;
  if (may_overwrite_) {
    std::cerr << line.substr(progress, TerminalColumns() - 1);  // A wrapped line stays.
  } else {
    std::cerr << line << "\n";
  }
}

void LogView::EndLine() {
  if (may_overwrite_) std::cerr << std::endl;
  may_overwrite_ = false;
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
