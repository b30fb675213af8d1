#include "simurgh/base/thread.h"

#include <string>

#include <pthread.h>

namespace simurgh {

void SetThreadName(std::string_view name) {
  // Linux refuses names of more than 15 characters.
  pthread_setname_np(pthread_self(), std::string(name.substr(0, 15)).c_str());
}

}  // namespace simurgh
