#include "tests/unit/model/command.h"

#include <cstdlib>

#include <sys/wait.h>

#include "base/check.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/model/model_files.h"

namespace simurgh::testing {

CommandResult RunCommand(const std::string& command) {
  const TemporaryFolder folder;
  const std::string line =
      "( " + command + " ) > " + folder.Path("out") + " 2> " + folder.Path("error");
  const int status = std::system(line.c_str());
  SIMURGH_CHECK(WIFEXITED(status)) << command;
  return {WEXITSTATUS(status), ReadText(folder.Path("out")), ReadText(folder.Path("error"))};
}

}  // namespace simurgh::testing
