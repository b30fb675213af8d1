#pragma once

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"

namespace simurgh::testing {

// Writes purchases and all items into a folder. Returns the settings that config/two-tower.yaml
// needs to train on them, with negatives from the file of items.
inline std::vector<std::string> TowerData(const TemporaryFolder& folder) {
  const std::string purchases = folder.Path("purchases.csv");
  const std::string command =
      absl::StrCat(std::getenv("SIMURGH_BIN_DIR"), "/datagen --teacher purchases --samples 40000",
                   " --output ", purchases, " > /dev/null 2>&1");
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string items = folder.Path("items.csv");
  std::ofstream file(items);
  file << "item\n";
  for (int item = 0; item < 300; ++item) file << item << '\n';
  return {"data.train=[" + purchases + "]", "data.items=" + items,
          "model.two_tower.uniform_negatives=5"};
}

}  // namespace simurgh::testing
