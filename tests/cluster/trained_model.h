#pragma once

#include <string>
#include <vector>

#include "model/model_directory.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_cluster.h"
#include "tests/unit/model/command.h"

// Models of short trainings, and the programs that use them.
namespace simurgh::testing {

// The path of a program. Requires SIMURGH_BIN_DIR.
std::string Program(const std::string& name);
// Runs `simurgh` with these arguments.
CommandResult Simurgh(const std::string& arguments);

// Requires that the text ends with a line end.
std::vector<std::string> Lines(const std::string& text);

// The largest difference of numbers in lines of cells. Requires equal numbers of lines and cells.
double WorstDifference(const std::vector<std::string>& a, const std::vector<std::string>& b);

// A model of a short training in one process, and rows of its test file as text.
struct Trained {
  explicit Trained(const std::string& config, std::vector<std::string> overrides = {});

  // The first rows of the test file.
  std::string Rows(int count) const;

  TemporaryFolder folder;
  const std::string model = folder.Path("model");
  std::string test;
  TrainerOutcome outcome;
  Checkpoint checkpoint;
};

// `simurgh predict` with the columns that a model reads: a CSV file. metadata: of the model, from a
// server by v2, whose names the file has.
std::string PredictedRows(const Trained& trained, const std::string& metadata);

// 4,000 rows, in the Criteo layout without --teacher: the path of the file. options: of datagen.
std::string Generate(const TemporaryFolder& folder, const char* name,
                     const std::string& options = "");

// A small configuration in the Criteo layout. Its ids are numbers, its table has no hash.
std::string PlainConfig(const TemporaryFolder& folder);

// A small configuration with every pooling, over lists of ids with weights in the column `tags`,
// whose separator is "|", and with the layers that no committed model has.
std::string PoolingConfig(const TemporaryFolder& folder);

}  // namespace simurgh::testing
