#pragma once

#include <cstdint>

namespace simurgh {

// What an arena begins with. Everything in an arena is named by its offset from the superblock, so
// that another process can map the file elsewhere and find its way. A server that is killed leaves
// every store it has executed: what follows in the program may be missing, what precedes is there.

inline constexpr uint64_t kArenaMagic = 0x4148'4752'554d'4953;  // "SIMURGHA" in memory.
inline constexpr uint32_t kArenaVersion = 1;
// An offset of nothing: the superblock lies there.
inline constexpr uint64_t kNoOffset = 0;

// Version 1. Integers are the machine's: an arena does not travel.
struct ArenaSuperblock {
  uint64_t magic;
  uint32_t version;
  uint32_t superblock_bytes;
  uint64_t size_bytes;
  uint64_t identity;  // Of the tables that it holds; see Partition.
  uint64_t used_bytes;
  uint64_t first_table;   // TableRecord; kNoOffset: none.
  uint64_t push_journal;  // PushRecord; kNoOffset: none is kept.
  uint64_t reserved;
};
static_assert(sizeof(ArenaSuperblock) == 64);

// Where the rows of a table lie. Row r begins at rows + r * stride_bytes; rows from carved_rows on
// have never been held, and those whose recency is kFreeRecency are not.
struct TableRecord {
  uint64_t next;  // TableRecord; kNoOffset: the last one.
  uint64_t name_hash;
  uint64_t rows;
  uint64_t stride_bytes;
  uint64_t capacity_rows;
  uint32_t dim;
  uint32_t carved_rows;
  uint32_t free_row;  // The first of the chain of freed rows, or kNoRow.
  uint32_t reserved[3];
};
static_assert(sizeof(TableRecord) == 64);

// The push that a partition is applying, and copies of the rows that it is changing at the moment.
struct PushRecord {
  static constexpr uint32_t kMaxRows = 32;
  static constexpr uint32_t kIdle = 0;
  static constexpr uint32_t kApplying = 1;

  uint32_t state;
  uint32_t rank;
  uint64_t run;
  uint64_t step;
  uint32_t part;
  uint32_t parts;
  uint64_t table;  // TableRecord of the group that is being applied.
  // One word, so that it changes at once. Bits 0 to 7: how many rows may be torn; they are to be as
  // their copies say. Bits 8 to 47: the position in the group from which on ids are still to be
  // applied. Bits 48 to 63: the group; those before it are applied.
  uint64_t progress;
  uint64_t copies;  // Offset of kMaxRows records, each of the widest table's stride.
  uint64_t copy_stride_bytes;
  uint32_t rows[kMaxRows];  // Which rows the copies are of.
};
static_assert(sizeof(PushRecord) == 64 + 4 * PushRecord::kMaxRows);

}  // namespace simurgh
