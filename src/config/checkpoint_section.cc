#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

#include "config/sections.h"

namespace simurgh {

void ReadCheckpoint(MapReader& root, const std::string& folder, CheckpointConfig* checkpoint) {
  root.Map("checkpoint", [&](MapReader& in) {
    std::string& directory = checkpoint->directory;
    in.Text("directory",
            "folder in which the model is saved when training ends; none: nothing is saved",
            &directory, "path of a folder");
    if (directory.empty()) return;
    if (directory.starts_with("~")) {
      in.Error("directory", absl::StrCat("'", directory, "' begins with ~, which is not expanded"),
               "write out the path of the home folder");
    }
    directory = (std::filesystem::path(folder) / directory).lexically_normal().string();
  });
}

}  // namespace simurgh
