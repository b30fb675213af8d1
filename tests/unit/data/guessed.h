#pragma once

#include <string>

#include <catch2/catch.hpp>

#include "data/guess/data_guess.h"
#include "tests/support/temporary_folder.h"

namespace simurgh::testing {

// What is guessed of a file with this text.
struct Guessed {
  explicit Guessed(const std::string& text, const GuessOptions& options = {}) {
    const StatusOr<DataGuess> found = GuessData(folder.Write("a.csv", text), options);
    INFO(found.status().ToString());
    REQUIRE(found.ok());
    guess = *found;
  }
  Guessed(const std::string& text, const std::string& label)
      : Guessed(text, GuessOptions{.label = label}) {}
  const ColumnGuess& operator[](size_t column) const { return guess.columns.at(column); }
  ColumnConfig::Kind kind(size_t column) const { return guess.columns.at(column).config.kind; }

  TemporaryFolder folder;
  DataGuess guess;
};

// The error without the folder.
inline std::string ErrorOf(const std::string& text, const GuessOptions& options = {}) {
  const TemporaryFolder folder;
  const StatusOr<DataGuess> guess = GuessData(folder.Write("a.csv", text), options);
  REQUIRE_FALSE(guess.ok());
  CHECK(absl::IsInvalidArgument(guess.status()));
  std::string message(guess.status().message());
  REQUIRE_THAT(message, Catch::StartsWith(folder.path()));
  return message.substr(folder.path().size() + 1);
}
inline std::string ErrorOf(const std::string& text, const std::string& label) {
  return ErrorOf(text, GuessOptions{.label = label});
}

}  // namespace simurgh::testing
