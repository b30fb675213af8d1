#ifndef SIMURGH_DATA_PLUGIN_H_
#define SIMURGH_DATA_PLUGIN_H_

/* Feature processing from outside: a shared object that turns the cells of a row into ids of a
 * feature, or into dense values. This header is all that it needs; C99, C++ too. An example is
 * config/plugins/soft_bins.c.
 *
 * The shared object exports one function:
 *
 *   const simurgh_plugin* simurgh_plugin_entry(void);
 *
 * What is called when: create once for every feature or derived column, and for every reader of a
 * data set (training, evaluation, a feeder); process for each row; destroy when the reader is done.
 * The shared object stays loaded until its last instance is destroyed.
 *
 * Determinism: the same cells give the same results, in whatever instance and order. Training,
 * evaluation and several feeders rely on it.
 *
 * Threads: one instance is used by one thread at a time. Instances live side by side, and create,
 * process and destroy of different ones run on several threads at once.
 *
 * Lifetime: what is passed in is good during the call. What process writes goes to the room that
 * it is given. No exception may leave a function, and no function may end the process.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a struct or a duty below changes; a reader refuses any other. */
#define SIMURGH_PLUGIN_ABI 1u

/* Bytes; no 0 at the end. */
typedef struct simurgh_text {
  const char* data;
  size_t size;
} simurgh_text;

/* A column of the row: one value, several where the column has a separator, none where it is
 * missing. */
typedef struct simurgh_cell {
  const simurgh_text* values;
  size_t count;
} simurgh_cell;

/* What the configuration says of one instance. */
typedef struct simurgh_setup {
  simurgh_text name;           /* Of the feature, or of the derived column. */
  const simurgh_text* columns; /* Whose cells process gets, in this order. */
  size_t column_count;
  const simurgh_text* parameters; /* As they stand in the configuration. */
  size_t parameter_count;
  size_t dense_width; /* Dense values to make of a row; 0: ids are asked for. */
} simurgh_setup;

/* Where results go. For ids: ids and weights have room for `capacity`, weights are all 1, and
 * process sets `count`; no ids is a missing value. For dense values: `dense` has dense_width of
 * them, all 0. The other part is null and 0. */
typedef struct simurgh_output {
  uint64_t* ids;
  float* weights; /* Finite. */
  size_t capacity;
  size_t count;
  float* dense; /* Finite. */
} simurgh_output;

/* Room for a message, ended by 0, of what is wrong and what to do. */
typedef struct simurgh_message {
  char* text;
  size_t size;
} simurgh_message;

typedef enum simurgh_verdict {
  SIMURGH_OK = 0,
  SIMURGH_BAD_ROW = 1, /* This row cannot be processed: data.bad_rows says what that means. */
  SIMURGH_FAILED = 2   /* No row can: reading ends. */
} simurgh_verdict;

typedef struct simurgh_plugin {
  uint32_t abi; /* SIMURGH_PLUGIN_ABI */

  /* A new instance, not null; or null and a message. */
  void* (*create)(const simurgh_setup* setup, simurgh_message* message);

  /* cells: setup->column_count of them. A message only with a verdict other than OK. */
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
