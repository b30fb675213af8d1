#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "model/model_directory.h"

namespace simurgh {

inline constexpr char kManifest[] = "/manifest.json";
inline constexpr std::string_view kTensorFile = ".safetensors";

// Returns whether bytes are wrong or missing. Any other error, such as a file that the process may
// not read, can pass: the checkpoint must be kept, and must not be left out.
bool IsDamage(const Status& status);

std::string StepFolder(const std::string& model, uint64_t step);

// Returns size and hash of a file, as a manifest lists them, with the `path` of the call.
StatusOr<ModelFile> Identify(FileSystem& files, const std::string& path);
// Errors: DATA_LOSS, naming the file, for another size or hash.
Status CompareFile(const std::string& path, const ModelFile& expected, const ModelFile& found);

// Reads the manifest. Errors: DATA_LOSS for damage; FAILED_PRECONDITION for a newer format; of
// FileSystem.
StatusOr<Checkpoint> ReadCheckpoint(FileSystem& files, const std::string& model, uint64_t step);

// Compares all checksums of a tensor file. read: called with the bytes of each piece.
Status VerifyTensors(FileSystem& files, const std::string& path,
                     const std::function<void(uint64_t)>& read);

// Finds damage of all that a start of training reads, but for the rows: their checksums are
// compared when the servers load them.
Status CheckFiles(const Checkpoint& checkpoint);

}  // namespace simurgh
