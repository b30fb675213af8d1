#include <fstream>
#include <thread>

#include <sched.h>

#include <catch2/catch.hpp>

#include "base/thread.h"
#include "tests/support/skip.h"

namespace simurgh {
namespace {

TEST_CASE("a thread pinned to a node runs on processors that it might use before") {
  if (!std::ifstream("/sys/devices/system/node/node0/cpulist")) {
    SIMURGH_SKIP("/sys lists no NUMA nodes");
  }
  cpu_set_t before;
  cpu_set_t after;
  Status pinned;
  std::thread([&] {
    sched_getaffinity(0, sizeof(before), &before);
    pinned = PinThreadToNode(0);
    sched_getaffinity(0, sizeof(after), &after);
  }).join();
  INFO(pinned.ToString());
  REQUIRE(pinned.ok());
  CHECK(CPU_COUNT(&after) > 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &after)) CHECK(CPU_ISSET(cpu, &before));
  }
}

TEST_CASE("a node that is not there is an error with its number") {
  const Status status = PinThreadToNode(1023);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK(status.message().find("1023") != absl::string_view::npos);
}

}  // namespace
}  // namespace simurgh
