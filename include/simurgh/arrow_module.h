/* The interface between the programs and libsimurgh_arrow.so, which reads Parquet and Arrow data,
 * and files of object stores.
 *
 * C99. The programs do not link Arrow: they load the module when data need it. Columns cross the
 * boundary by the Arrow C data interface.
 *
 * Threads: any; a reader has one owner at a time.
 */
#ifndef SIMURGH_DATA_ARROW_MODULE_H_
#define SIMURGH_DATA_ARROW_MODULE_H_

#include <stddef.h>
#include <stdint.h>

#include "simurgh/arrow_c_data.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SIMURGH_ARROW_VERSION 4
#define SIMURGH_ARROW_ENTRY "simurgh_arrow_entry"

enum simurgh_arrow_result {
  SIMURGH_ARROW_OK = 0,
  SIMURGH_ARROW_END = 1,
  SIMURGH_ARROW_NOT_FOUND = 2,
  SIMURGH_ARROW_DENIED = 3,
  SIMURGH_ARROW_FAILED = 4,  /* Reading or the network. */
  SIMURGH_ARROW_DAMAGED = 5, /* The content is not what it should be. */
  SIMURGH_ARROW_REFUSED = 6  /* An argument, or a kind of data that the module does not read. */
};

/* Receives the reason for a failure: at most size - 1 characters and a zero. */
struct simurgh_arrow_message {
  char* text;
  size_t size;
};

enum simurgh_arrow_kind {
  SIMURGH_ARROW_PARQUET = 0,
  SIMURGH_ARROW_IPC_FILE = 1,
  SIMURGH_ARROW_IPC_STREAM = 2
};

/* The input of a reader. */
struct simurgh_arrow_input {
  enum simurgh_arrow_kind kind;
  const char* path;  /* A file, or a URI such as s3://bucket/key. Null: the next two. */
  int descriptor;    /* A stream, which the caller closes. -1: the input is in memory. */
  const void* bytes; /* A stream or IPC file in memory, which outlives the reader and its rows. */
  size_t size;
};

/* Defined by the module. */
struct simurgh_arrow_reader;
struct simurgh_arrow_remote;

/* A file that list() finds. */
struct simurgh_arrow_file {
  const char* path; /* A path for open(). */
  uint64_t bytes;
  int64_t modified_ns; /* Nanoseconds since 1970. */
};
typedef void (*simurgh_arrow_file_function)(void* context, const struct simurgh_arrow_file* file);

struct simurgh_arrow_module {
  uint32_t version; /* SIMURGH_ARROW_VERSION */

  /* Opens an input at its first row. */
  enum simurgh_arrow_result (*open)(const struct simurgh_arrow_input* input,
                                    struct simurgh_arrow_reader** reader,
                                    struct simurgh_arrow_message* message);
  void (*close)(struct simurgh_arrow_reader* reader);

  /* Sets the columns of the input, as a struct; the caller releases it. */
  enum simurgh_arrow_result (*schema)(struct simurgh_arrow_reader* reader,
                                      struct ArrowSchema* schema,
                                      struct simurgh_arrow_message* message);

  /* Chooses columns by their index in the schema, once and before next(). Others are not read.
   * types: as a struct, the types in which next() gives them; the caller releases it. */
  enum simurgh_arrow_result (*select)(struct simurgh_arrow_reader* reader, const size_t* columns,
                                      size_t count, struct ArrowSchema* types,
                                      struct simurgh_arrow_message* message);

  /* Returns the number of rows of the input; -1: unknown. */
  int64_t (*rows)(struct simurgh_arrow_reader* reader);

  /* Leaves out as many of the next rows as cost no decoding, at most `rows`. Returns their number.
   */
  uint64_t (*skip)(struct simurgh_arrow_reader* reader, uint64_t rows);

  /* Sets the next rows, as a struct of the selected columns in their order; the caller releases it.
   * SIMURGH_ARROW_END: there are no more. */
  enum simurgh_arrow_result (*next)(struct simurgh_arrow_reader* reader, struct ArrowArray* rows,
                                    struct simurgh_arrow_message* message);

  /* Calls `found` for the files that a URI names, in order of their paths: one, those of a folder
   * whose names end in `.parquet`, or those that match `*` and `[...]` in a path. Options of the
   * file system follow `?` in a URI. */
  enum simurgh_arrow_result (*list)(const char* uri, simurgh_arrow_file_function found,
                                    void* context, struct simurgh_arrow_message* message);

  /* Opens a file of an object store, a URI such as s3://bucket/key, and sets its size. */
  enum simurgh_arrow_result (*open_remote)(const char* uri, struct simurgh_arrow_remote** file,
                                           uint64_t* bytes, struct simurgh_arrow_message* message);
  void (*close_remote)(struct simurgh_arrow_remote* file);

  /* Reads up to `size` bytes from a byte of the file on, and sets their number; 0: the end. */
  enum simurgh_arrow_result (*read_remote)(struct simurgh_arrow_remote* file, uint64_t byte,
                                           void* bytes, size_t size, size_t* count,
                                           struct simurgh_arrow_message* message);

  /* Writes a Parquet file of rows with the columns `ids` and `vectors`. integers: the ids; null:
   * texts, which end in a zero, are the ids. vectors: [rows][width]. */
  enum simurgh_arrow_result (*write_vectors)(const char* path, uint64_t rows,
                                             const int64_t* integers, const char* const* texts,
                                             const float* vectors, uint64_t width,
                                             struct simurgh_arrow_message* message);
};

/* Exported under the name SIMURGH_ARROW_ENTRY. */
typedef const struct simurgh_arrow_module* (*simurgh_arrow_entry_function)(void);

#ifdef __cplusplus
}
#endif

#endif /* SIMURGH_DATA_ARROW_MODULE_H_ */
