// All targets in one program, run by libFuzzer:
//
//   rpc_fuzz --list                   the names of the targets
//   rpc_fuzz TARGET --seeds=FOLDER    writes the inputs to begin with
//   rpc_fuzz TARGET [libFuzzer's own flags, corpus folders or inputs to run]
//
// One more, `canary`, is broken: a test shows that this is found.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "tests/fuzz/targets.h"

namespace simurgh::fuzz {
namespace {

const Target* target = nullptr;

const std::vector<Target>& Targets() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> all = FrameTargets();
    for (const auto& more :
         {ArrowTargets(), ConversationTargets(), DataTargets(), DenseTargets(), RowTargets(),
          BatchTargets(), LoaderTargets(), ModelTargets(), ServedRowTargets(), ServingTargets()}) {
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return targets;
}

// Reads behind its input when that begins with "SM".
const Target kCanary{"canary",
                     [](Input input) {
                       const Bytes bytes = ToBytes(input);
                       if (bytes.size() < 2) return;
                       const bool found = bytes[0] == std::byte{'S'} && bytes[1] == std::byte{'M'};
                       const volatile std::byte* const last = bytes.data() + bytes.size() - 1;
                       (void)last[found ? 1 : 0];
                     },
                     [] { return std::vector<Bytes>{Bytes(4, std::byte{'S'})}; }};

const Target* Find(std::string_view name) {
  if (name == kCanary.name) return &kCanary;
  for (const Target& candidate : Targets()) {
    if (candidate.name == name) return &candidate;
  }
  return nullptr;
}

[[noreturn]] void List() {
  for (const Target& one : Targets()) std::cout << one.name << "\n";
  std::exit(EXIT_SUCCESS);
}

[[noreturn]] void WriteSeeds(const std::filesystem::path& folder) {
  size_t number = 0;
  for (const Bytes& seed : target->seeds()) {
    std::ofstream file(folder / ("seed-" + std::to_string(number++)), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
    if (!file) {
      std::cerr << "cannot write to " << folder << "\n";
      std::exit(EXIT_FAILURE);
    }
  }
  std::exit(EXIT_SUCCESS);
}

// Takes the target's name out of the arguments, which are libFuzzer's from then on.
void Choose(int* argc, char*** argv) {
  constexpr std::string_view kSeeds = "--seeds=";
  const std::string_view name = *argc > 1 ? (*argv)[1] : "";
  if (name == "--list") List();
  target = Find(name);
  if (target == nullptr) {
    std::cerr << "usage: " << (*argv)[0] << " TARGET [flags] [corpus]; --list names the targets\n";
    std::exit(EXIT_FAILURE);
  }
  if (*argc > 2 && std::string_view((*argv)[2]).starts_with(kSeeds)) {
    WriteSeeds((*argv)[2] + kSeeds.size());
  }
  (*argv)[1] = (*argv)[0];
  ++*argv;
  --*argc;
}

}  // namespace
}  // namespace simurgh::fuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  simurgh::fuzz::Choose(argc, argv);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  simurgh::fuzz::target->run(std::as_bytes(std::span(data, size)));
  return 0;
}
