#include "base/thread.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "base/mutex.h"

namespace simurgh {

void SetThreadName(std::string_view name) {
  // Linux refuses names of more than 15 characters.
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

void LowerPriority() {
  constexpr int kNice = 10;  // A tenth of the default share of time.
  // On Linux, setpriority() applies to the thread.
  (void)::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), kNice);
}

Status PinThreadToNode(uint32_t node) {
  // The file contains a list such as "0-3,8-11"; it is empty for a node without processors.
  const std::string path = absl::StrCat("/sys/devices/system/node/node", node, "/cpulist");
  std::string list;
  std::ifstream in(path);
  if (!std::getline(in, list)) {
    return absl::InvalidArgumentError(
        absl::StrCat("numa_nodes: node ", node, " does not exist (", path,
                     "); use nodes listed in /sys/devices/system/node/online"));
  }
  cpu_set_t processors;
  CPU_ZERO(&processors);
  for (const absl::string_view range : absl::StrSplit(list, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(range, absl::MaxSplits('-', 1));
    uint32_t first = 0;
    if (!absl::SimpleAtoi(ends.first, &first)) continue;
    uint32_t last = first;
    if (!ends.second.empty() && !absl::SimpleAtoi(ends.second, &last)) continue;
    for (uint32_t cpu = first; cpu <= last && cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &processors);
  }
  if (sched_setaffinity(0, sizeof(processors), &processors) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("numa_nodes: the processors ", list, " of node ",
                                                   node, " are not usable: ", std::strerror(errno),
                                                   "; use another node"));
  }
  return absl::OkStatus();
}

Status ForEachAtOnce(size_t count, size_t threads, absl::FunctionRef<Status(size_t)> work) {
  std::atomic<size_t> next = 0;
  Mutex mutex;
  Status result;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      const Status done = work(i);
      if (done.ok()) continue;
      const MutexLock lock(mutex);
      result.Update(done);
      next = count;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < std::min(threads, count)) others.emplace_back(run);
    } catch (const std::system_error&) {  // Too few threads are allowed; the running ones suffice.
    }
    run();
  }
  return result;
}

}  // namespace simurgh
