#include "services/simurgh/run_state.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace simurgh {
namespace {

std::string PathIn(const std::string& folder) { return folder + "/state"; }

}  // namespace

std::optional<uint64_t> StartTimeOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  // The second field, the name in parentheses, may have spaces and parentheses.
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  constexpr size_t kStartTime = 22 - 3;  // Field 22; the third follows the name.
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(end + 1), ' ', absl::SkipEmpty());
  uint64_t ticks = 0;
  if (fields.size() <= kStartTime || !absl::SimpleAtoi(fields[kStartTime], &ticks)) {
    return std::nullopt;
  }
  return ticks;
}

Status WriteRunState(const std::string& folder, const RunState& state) {
  const std::string path = PathIn(folder);
  const std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary);
  for (const RunProcess& process : state.processes) {
    file << process.name << "\t" << process.pid << "\t" << process.start_time << "\t" << process.log
         << "\n";
  }
  if (state.exit_code) file << "exit\t" << *state.exit_code << "\n";
  file.close();
  if (file && std::rename(fresh.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(path, ": cannot write it: ", std::strerror(errno)));
}

StatusOr<RunState> ReadRunState(const std::string& folder) {
  const std::string path = PathIn(folder);
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  RunState state;
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, '\t');
    RunProcess process;
    int code = 0;
    if (words.size() == 2 && words[0] == "exit" && absl::SimpleAtoi(words[1], &code)) {
      state.exit_code = code;
    } else if (words.size() == 4 && absl::SimpleAtoi(words[1], &process.pid) && process.pid > 0 &&
               absl::SimpleAtoi(words[2], &process.start_time)) {
      process.name = words[0];
      process.log = words[3];
      state.processes.push_back(process);
    } else {
      return absl::DataLossError(absl::StrCat(path, ": malformed; stop the daemons by hand"));
    }
  }
  return state;
}

}  // namespace simurgh
