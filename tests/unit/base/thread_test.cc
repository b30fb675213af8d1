#include "base/thread.h"

#include <thread>

#include <sys/resource.h>

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

int Niceness() { return ::getpriority(PRIO_PROCESS, 0); }  // For the calling thread.

TEST_CASE("A thread that gives way does so alone") {
  const int before = Niceness();
  int within = 0;
  std::thread([&] {
    LowerPriority();
    within = Niceness();
  }).join();
  CHECK(within >= 10);
  CHECK(Niceness() == before);
}

}  // namespace
}  // namespace simurgh
