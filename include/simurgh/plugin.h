#ifndef SIMURGH_DATA_PLUGIN_H_
#define SIMURGH_DATA_PLUGIN_H_

/* Feature processing in a shared object: it turns the cells of a row into ids of a feature or into
 * dense values. It needs only this header, in C99 or C++. Example: config/plugins/soft_bins.c.
 *
 * The shared object exports one function:
 *
 *   const simurgh_plugin* simurgh_plugin_entry(void);
 *
 * Calls: create, once for every feature or derived column of every thread that reads a data set
 * (training, evaluation, loader); process, for each row; destroy, when the reader is done. The
 * shared object stays loaded until its last instance is destroyed.
 *
 * Determinism: equal cells must give equal results, independent of instance and order.
 *
 * Threads: one thread at a time uses an instance. Functions of different instances run
 * concurrently.
 *
 * Lifetime: arguments are valid during the call. No exception may leave a function, and no function
 * may end the process.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with the structs and contracts below. Readers refuse other values. */
#define SIMURGH_PLUGIN_ABI 1u

/* Bytes; no 0 at the end. */
typedef struct simurgh_text {
  const char* data;
  size_t size;
} simurgh_text;

/* A column of the row: one value, several if the column has a separator, or none if missing. */
typedef struct simurgh_cell {
  const simurgh_text* values;
  size_t count;
} simurgh_cell;

/* Configuration of one instance. */
typedef struct simurgh_setup {
  simurgh_text name;           /* Name of the feature or derived column. */
  const simurgh_text* columns; /* Names of the columns whose cells process receives, in order. */
  size_t column_count;
  const simurgh_text* parameters; /* Parameters in the configuration. */
  size_t parameter_count;
  size_t dense_width; /* Dense values per row; 0: ids. */
} simurgh_setup;

/* Results. For ids: ids and weights have room for `capacity`, weights are initially 1, and process
 * sets `count`; no ids is a missing value. For dense values: `dense` has dense_width values,
 * initially 0. The other fields are null or 0. */
typedef struct simurgh_output {
  uint64_t* ids;
  float* weights; /* Weights must be finite. */
  size_t capacity;
  size_t count;
  float* dense; /* Values must be finite. */
} simurgh_output;

/* Room for an error message with its remedy, ended by 0. */
typedef struct simurgh_message {
  char* text;
  size_t size;
} simurgh_message;

typedef enum simurgh_verdict {
  SIMURGH_OK = 0,
  SIMURGH_BAD_ROW = 1, /* This row cannot be processed; data.on_bad_row applies. */
  SIMURGH_FAILED = 2   /* No row can be processed: reading ends. */
} simurgh_verdict;

typedef struct simurgh_plugin {
  uint32_t abi; /* SIMURGH_PLUGIN_ABI */

  /* Returns a new instance, or null and a message. */
  void* (*create)(const simurgh_setup* setup, simurgh_message* message);

  /* Processes a row. cells: setup->column_count. Sets a message only with a verdict other than OK.
   */
  simurgh_verdict (*process)(void* instance, const simurgh_cell* cells, simurgh_output* output,
                             simurgh_message* message);

  void (*destroy)(void* instance);
} simurgh_plugin;

#define SIMURGH_PLUGIN_ENTRY "simurgh_plugin_entry"
typedef const simurgh_plugin* (*simurgh_plugin_entry_function)(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* SIMURGH_DATA_PLUGIN_H_ */
