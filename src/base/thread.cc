#include "simurgh/base/thread.h"

#include <string>

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

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

}  // namespace simurgh
