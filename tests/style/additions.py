#!/usr/bin/python3
"""additions.py BUILD: adds an optimizer and a pooling to a copy of the tree, each in the files that the READMEs name,
and runs them there. They need at most four and three files."""

import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77

OPTIMIZER = {
    "src/config/table_config.h": [("kFtrl, kGroupFtrl }", "kFtrl, kGroupFtrl, kSignSgd }")],
    "src/config/table_section.cc": [(
        '{"group_ftrl", SparseOptimizerConfig::Kind::kGroupFtrl, 0.1F}};',
        '{"group_ftrl", SparseOptimizerConfig::Kind::kGroupFtrl, 0.1F},\n'
        '    {"sign_sgd", SparseOptimizerConfig::Kind::kSignSgd, 0.25F}};')],
    "src/table/update_rules.h": [
        ("struct Momentum {", """struct SignSgd {
  static constexpr RowStateShape kState = {0, 0};
  static constexpr std::array<std::string_view, 0> kNames = {};
  static bool Fits(const SparseOptimizerConfig& config) { return config.kind == Kind::kSignSgd; }
};

struct Momentum {"""),
        ("rules::GroupFtrl>;", "rules::GroupFtrl, rules::SignSgd>;")],
    "src/table/simd/rules-inl.h": [("HWY_INLINE bool Prepares(", """HWY_INLINE void Update(rules::SignSgd, const RowUpdateParameters& p, const RowGradient& row,
                       FiniteCheck& check) {
  for (uint32_t i = 0; i < p.dim; ++i) {
    row.weights[i] -= std::copysign(p.optimizer.learning_rate, row.gradient[i]);
    check.Add(row.weights[i]);
  }
}

HWY_INLINE bool Prepares(""")],
}

POOLING = {
    "src/config/feature_config.h": [
        ("};\n\n// Names in YAML.", "  kFirst,\n};\n\n// Names in YAML."),
        ('{"raw", Pooling::kRaw}', '{"raw", Pooling::kRaw},\n    {"first", Pooling::kFirst}')],
    "src/embedding/pooling.cc": [
        ("// Returns use(pooling) for", """struct FirstPooling {
  static void Pool(const Sample& sample, std::span<const float> rows, std::span<float> block) {
    SumRows(sample, sample.occurrences.first(1), rows, block.data());
  }
  static bool Unpool(const Sample& sample, std::span<const float> block, std::span<float> rows) {
    AddToRows(sample, sample.occurrences.first(1), block.data(), rows);
    return true;
  }
};

// Returns use(pooling) for"""),
        ("    case Pooling::kRaw:\n      break;",
         "    case Pooling::kFirst:\n      return use(FirstPooling());\n    case Pooling::kRaw:\n      break;")],
}

PROGRAM = """
#include <cstdio>
#include <vector>

#include "config/cluster_config.h"
#include "embedding/pooling.h"
#include "table/simd/row_update.h"
#include "table/update_rules.h"

int main() {
  using namespace simurgh;
  const auto config = ParseClusterConfig(
      "data: {train: [none.csv], columns: [{name: id, kind: id}, {name: label, kind: label}]}\\n"
      "tables: [{name: id, dim: 2, capacity_rows: 10, optimizer: {kind: sign_sgd}}]\\n"
      "features: [{name: id, pooling: first}]\\n"
      "model: {towers: [{name: top, input: [embeddings], layers: [{linear: 1}]}]}\\n",
      "added", {}, InputFiles::kIgnore);
  if (!config.ok()) {
    std::fprintf(stderr, "%s\\n", config.status().ToString().c_str());
    return 1;
  }
  const RowUpdateParameters parameters = ParametersOf(config->tables[0]);
  std::vector<float> row = {1.0F, 2.0F};
  const std::vector<float> gradient = {3.0F, -4.0F};
  const RowGradient update{row.data(), gradient.data()};
  UpdateRows(parameters, {&update, 1});
  if (row != std::vector<float>{0.75F, 2.25F}) return 2;

  const std::vector<uint32_t> occurrences = {1, 0};
  const std::vector<uint32_t> offsets = {0, 2};
  const std::vector<uint64_t> ids = {7, 8}, positions = {0, 2};
  const PoolingInput input{.rule = {.kind = config->features[0].pooling},
                           .feature = {.ids = ids, .occurrences = occurrences, .offsets = offsets},
                           .dim = 2,
                           .row_positions = positions};
  const std::vector<float> rows = {1.0F, 2.0F, 3.0F, 4.0F};
  std::vector<float> pooled(2), gradients(4);
  Pool({&input, 1}, rows, 0, MatrixView<float>(pooled.data(), 1, 2));
  if (pooled != std::vector<float>{3.0F, 4.0F}) return 3;
  Unpool({&input, 1}, 0, MatrixView<const float>(pooled.data(), 1, 2), gradients);
  return gradients == std::vector<float>{0.0F, 0.0F, 3.0F, 4.0F} ? 0 : 4;
}
"""


def patch(tree, changes):
    for name, replacements in changes.items():
        path = tree / name
        text = path.read_text()
        for old, new in replacements:
            if text.count(old) != 1:
                sys.exit(f"{name} has {text.count(old)} times: {old}")
            text = text.replace(old, new)
        path.write_text(text)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    root = pathlib.Path.cwd()
    commands = build / "compile_commands.json"
    libraries = [build / "src" / module / f"libsimurgh_{name}.a" for module, name in (
        ("embedding", "embedding"), ("table", "table"), ("data", "data"), ("model", "model"), ("config", "config"),
        ("telemetry", "telemetry"), ("base", "log"), ("base", "base"))]
    if not commands.exists() or not all(library.exists() for library in libraries):
        print("SKIPPED: this build has no compile_commands.json, or lacks the libraries of src")
        sys.exit(SKIPPED)
    if len(OPTIMIZER) > 4 or len(POOLING) > 3:
        sys.exit("an optimizer must need at most 4 files, a pooling 3")
    by_file = {entry["file"]: entry for entry in json.loads(commands.read_text())}
    if "-fsanitize" in by_file[str(root / "src/table/update_rules.cc")]["command"]:
        print("SKIPPED: this build has sanitizers; a release build shows the same")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        shutil.copytree(root / "src", tree / "src")
        patch(tree, OPTIMIZER)
        patch(tree, POOLING)
        (tree / "src/added.cc").write_text(PROGRAM)
        objects = []

        def compile_as(entry, source):
            # Without ccache, whose base folder is the tree's. The first folder of headers is the copy's.
            words = shlex.split(entry["command"])
            words = words[next(i for i, word in enumerate(words) if "clang++" in word):]
            words[words.index("-c") + 1] = str(source)
            target = tree / f"{len(objects)}.o"
            words[words.index("-o") + 1] = str(target)
            words = [word.replace(f"-I{root}/src", f"-I{tree}/src") for word in words]
            subprocess.run([words[0], "-I" + str(tree / "src"), *words[1:]], cwd=entry["directory"], check=True)
            objects.append(target)
            return words[0]

        sources = ["src/config/table_section.cc", "src/config/feature_section.cc", "src/config/defaults.cc",
                   "src/table/update_rules.cc", "src/table/simd/row_update.cc", "src/embedding/pooling.cc"]
        for source in sources:  # The build must compile these alone: see simurgh_compile_alone.
            compiler = compile_as(by_file[str(root / source)], tree / source)
        compile_as(by_file[str(root / "src/table/update_rules.cc")], tree / "src/added.cc")
        program = tree / "added"
        needed = ["-lyaml-cpp", "-lspdlog", "-lfmt", "-lhwy", "-lxxhash", "-lz", "-lzstd", "-ldl"]
        absl = subprocess.run("pkg-config --libs absl_status absl_statusor absl_str_format absl_strings "
                              "absl_flat_hash_map absl_cord", shell=True, capture_output=True, text=True)
        subprocess.run([compiler, "-fuse-ld=lld-19", "-o", program, *objects, "-Wl,--start-group", *libraries,
                        "-Wl,--end-group", *needed, *absl.stdout.split()], check=True)
        code = subprocess.run([program]).returncode
        if code != 0:
            sys.exit(f"the added optimizer or pooling is wrong: {code}")
    print(f"an optimizer is added in {len(OPTIMIZER)} files, a pooling in {len(POOLING)}")


if __name__ == "__main__":
    main()
