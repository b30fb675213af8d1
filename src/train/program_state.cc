#include "train/program_state.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace simurgh {
namespace {

constexpr char kProgramName[] = "program.name";
constexpr char kProgramText[] = "program.state";

}  // namespace

void WriteProgram(const ProgramState& state, Manifest& manifest) {
  manifest.extra[kProgramName] = state.name;
  manifest.extra[kProgramText] = state.text;
}

StatusOr<ProgramState> ReadProgram(const Checkpoint& checkpoint) {
  const std::map<std::string, std::string>& extra = checkpoint.manifest.extra;
  const auto name = extra.find(kProgramName);
  const auto text = extra.find(kProgramText);
  if (name == extra.end() || text == extra.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(checkpoint.folder,
                     ": the model's network is that of the configuration, not of a program; "
                     "name another checkpoint.directory"));
  }
  ProgramState state{.name = name->second, .text = text->second};
  SIMURGH_ASSIGN_OR_RETURN(TensorFileReader file, checkpoint.OpenTensors(kProgramFile));
  for (const TensorSpec& spec : file.tensors()) {
    std::vector<std::byte> bytes(spec.rows() * spec.row_bytes());
    SIMURGH_RETURN_IF_ERROR(file.Read(spec.name, 0, spec.rows(), bytes));
    state.tensors.push_back({spec, std::move(bytes)});
  }
  return state;
}

Status CheckHasNetwork(const Checkpoint& checkpoint) {
  const auto name = checkpoint.manifest.extra.find(kProgramName);
  if (name == checkpoint.manifest.extra.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      checkpoint.folder, ": a program has the network of this model, ", name->second,
      "; run simurgh.torch.predict, evaluate or serve with it, or in C simurgh_server_open"));
}

}  // namespace simurgh
