#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "services/simurgh/run_processes.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

TEST_CASE("The state of a run is read back") {
  const TemporaryFolder folder;
  CHECK(absl::IsNotFound(ReadRunState(folder.path()).status()));
  const RunState written{
      .processes = {{"simurgh", 12, 345, ""}, {"embedding-ps-0", 13, 346, "/a b/ps.log"}},
      .exit_code = 3};
  REQUIRE(WriteRunState(folder.path(), written).ok());
  const RunState read = ReadRunState(folder.path()).value();
  REQUIRE(read.processes.size() == 2);
  CHECK(read.processes[0].log.empty());
  CHECK(read.processes[1].name == "embedding-ps-0");
  CHECK(read.processes[1].pid == 13);
  CHECK(read.processes[1].start_time == 346);
  CHECK(read.processes[1].log == "/a b/ps.log");
  CHECK(read.exit_code == 3);
  folder.Write("state", "embedding-ps-0\t-1\t5\t\n");
  CHECK(absl::IsDataLoss(ReadRunState(folder.path()).status()));
}

TEST_CASE("A process has one start time, whatever its name is") {
  const auto own = StartTimeOf(::getpid());
  REQUIRE(own);
  char name[16] = "";
  ::prctl(PR_GET_NAME, name);
  ::prctl(PR_SET_NAME, ") 1 2 (x)");
  CHECK(StartTimeOf(::getpid()) == own);
  ::prctl(PR_SET_NAME, name);

  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(StartTimeOf(child));
}

}  // namespace
}  // namespace simurgh
