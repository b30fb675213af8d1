#include "services/simurgh/unfinished_file.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

// For the handler of signals, which can call few functions.
std::atomic<const char*> unfinished = nullptr;
static_assert(std::atomic<const char*>::is_always_lock_free);

void RemoveAndEnd(int signal) {
  if (const char* const name = unfinished) unlink(name);
  std::signal(signal, SIG_DFL);
  (void)std::raise(signal);  // Takes effect when the handler returns.
}

}  // namespace

UnfinishedFile::UnfinishedFile(std::string path)
    : path_(std::move(path)), name_(absl::StrCat(path_, ".tmp-", getpid())) {
  unfinished = name_.c_str();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    // nohup and shells ignore signals for their children.
    if (std::signal(signal, RemoveAndEnd) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

UnfinishedFile::~UnfinishedFile() {
  if (unfinished.exchange(nullptr) != nullptr) unlink(name_.c_str());
}

Status UnfinishedFile::Finish() {
  if (rename(name_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, absl::StrCat(path_, ": cannot write it"));
  }
  unfinished = nullptr;
  return absl::OkStatus();
}

}  // namespace simurgh
