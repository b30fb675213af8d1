#include "table/pull_marks.h"

#include <catch2/catch.hpp>

namespace simurgh {
namespace {

TEST_CASE("marks keep the first stamp of a rank's last two pulls") {
  PullMarks marks;
  CHECK_FALSE(marks.StampOf(1, 0, 0));
  marks.Note(1, 0, 0, 5);
  marks.Note(1, 1, 0, 6);
  CHECK(marks.StampOf(1, 0, 0) == 5U);
  CHECK(marks.StampOf(1, 1, 0) == 6U);
  CHECK_FALSE(marks.StampOf(2, 0, 0));  // Another run.
  // An attempt that failed has given rows the stamp 5.
  marks.Note(1, 0, 0, 9);
  CHECK(marks.StampOf(1, 0, 0) == 5U);
  marks.Note(1, 0, 1, 10);
  CHECK(marks.StampOf(1, 0, 0) == 5U);
  CHECK(marks.StampOf(1, 0, 1) == 10U);
  marks.Note(1, 0, 2, 11);
  CHECK_FALSE(marks.StampOf(1, 0, 0));
  CHECK(marks.StampOf(1, 0, 2) == 11U);
  // A call that comes late.
  marks.Note(1, 0, 0, 12);
  CHECK_FALSE(marks.StampOf(1, 0, 0));
  CHECK(marks.StampOf(1, 0, 2) == 11U);
}

TEST_CASE("marks of the oldest ranks go first") {
  PullMarks marks;
  for (uint32_t rank = 0; rank <= kMaxRanks; ++rank) marks.Note(1, rank, 0, 1);
  CHECK_FALSE(marks.StampOf(1, 0, 0));
  CHECK(marks.StampOf(1, 1, 0) == 1U);
  CHECK(marks.StampOf(1, kMaxRanks, 0) == 1U);
}

}  // namespace
}  // namespace simurgh
