#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "services/serving/http_security.h"
#include "tests/support/temporary_folder.h"

namespace simurgh {
namespace {

const std::string kFirst = std::string(31, 'a') + '0';
const std::string kSecond = std::string(39, 'b') + '0';

std::string WriteTokens(const TemporaryFolder& folder, const std::string& text) {
  std::string path = folder.Write("tokens", text);
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  return path;
}

std::string ProblemOf(const std::string& path) {
  const auto tokens = BearerTokens::Load(path);
  return tokens.ok() ? "" : std::string(tokens.status().message());
}

}  // namespace

TEST_CASE("each token of the file is allowed, and no other", "[serving]") {
  const TemporaryFolder folder;
  const auto tokens =
      BearerTokens::Load(WriteTokens(folder, kFirst + "\n\n  " + kSecond + " \r\n"));
  REQUIRE(tokens.ok());
  CHECK((*tokens)->Allow("Bearer " + kFirst));
  CHECK((*tokens)->Allow("bearer  " + kSecond));
  for (const std::string& wrong : std::vector<std::string>{
           "", "Bearer", "Bearer ", "Basic " + kFirst, kFirst, "Bearer " + kFirst + "a",
           "Bearer " + kFirst.substr(1), "Bearer " + kFirst + " " + kSecond}) {
    INFO(wrong);
    CHECK_FALSE((*tokens)->Allow(wrong));
  }
}

TEST_CASE("files of tokens that others can read, or without tokens, are refused", "[serving]") {
  const TemporaryFolder folder;
  CHECK_THAT(ProblemOf(folder.path() + "/none"), Catch::Contains("cannot be read: No such file"));
  CHECK_THAT(ProblemOf(folder.path()), Catch::Contains("is not a regular file"));
  CHECK_THAT(ProblemOf(WriteTokens(folder, "\n")), Catch::Contains("has no token"));
  std::filesystem::remove(folder.Path("tokens"));
  CHECK_THAT(ProblemOf(WriteTokens(folder, kFirst + "\nshort\n")),
             Catch::Contains("has 5 bytes in line 2, expected a token of at least 32"));
  std::filesystem::permissions(folder.Path("tokens"), std::filesystem::perms::group_read,
                               std::filesystem::perm_options::add);
  CHECK_THAT(ProblemOf(folder.Path("tokens")), Catch::Contains("can be accessed by other users"));
}

}  // namespace simurgh
