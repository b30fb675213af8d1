/* Wrong calls and tables for a trained model: each returns a code, has a text, and leaves the model
 * usable.
 *
 * Usage: model MODEL
 * MODEL is of the configuration of the quickstart, without its network.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

#include "simurgh/arrow_c_data.h"
#include "simurgh/simurgh.h"

enum { kColumns = 14, kRows = 2 };

static const char* const kNames[kColumns] = {
    "age",          "workclass",      "education",      "education_num", "marital_status",
    "occupation",   "relationship",   "race",           "gender",        "capital_gain",
    "capital_loss", "hours_per_week", "native_country", "other"};

static int released = 0; /* Streams that were released. */

/* What a table does wrong. */
enum fault {
  kNone,
  kNoSchema,      /* get_schema fails. */
  kNoRows,        /* get_next fails. */
  kTooFewArrays,  /* The record batch has fewer arrays than the schema. */
  kShortArray,    /* An array has fewer rows than the record batch. */
  kBadOffsets,    /* Offsets of texts do not ascend. */
  kNoBuffer,      /* A buffer is missing. */
  kNegative,      /* The length is negative. */
  kMissingColumn, /* The schema lacks the first column. */
  kNoStruct,      /* The schema is that of an array. */
  kEmpty,         /* No record batch. */
  kBadCell,       /* A number is a text. */
  kLists          /* A column of numbers has lists. */
};

static enum fault fault;
static int sent;
static const char kTexts[] = "1a";
static const int32_t kOffsets[kRows + 1] = {0, 1, 1}; /* The second cell is missing. */
static const int32_t kTextOffsets[kRows + 1] = {0, 1, 2};
static const int32_t kWrongOffsets[kRows + 1] = {0, 900000000, 1};
static const void* buffers[kColumns][3];
static struct ArrowSchema schemas[kColumns];
static struct ArrowSchema* schema_pointers[kColumns];
static struct ArrowSchema item;
static struct ArrowSchema* item_pointer = &item;
static struct ArrowArray arrays[kColumns];
static struct ArrowArray* array_pointers[kColumns];
static const void* no_nulls[1];

static void release_schema(struct ArrowSchema* schema) { schema->release = NULL; }
static void release_array(struct ArrowArray* array) { array->release = NULL; }
static void release_stream(struct ArrowArrayStream* stream) {
  ++released;
  stream->release = NULL;
}

static int get_schema(struct ArrowArrayStream* stream, struct ArrowSchema* schema) {
  (void)stream;
  if (fault == kNoSchema) return 5;
  memset(schema, 0, sizeof(*schema));
  const int first = fault == kMissingColumn ? 1 : 0;
  for (int i = 0; i < kColumns; ++i) {
    memset(&schemas[i], 0, sizeof(schemas[i]));
    schemas[i].format = "u";
    schemas[i].name = kNames[i];
    schemas[i].release = release_schema;
    schema_pointers[i] = &schemas[i];
  }
  if (fault == kLists) {
    memset(&item, 0, sizeof(item));
    item.format = "l";
    item.name = "item";
    item.release = release_schema;
    schemas[0].format = "+l";
    schemas[0].n_children = 1;
    schemas[0].children = &item_pointer;
  }
  schema->format = fault == kNoStruct ? "l" : "+s";
  schema->name = "";
  schema->n_children = fault == kNoStruct ? 0 : kColumns - first;
  schema->children = schema_pointers + first;
  schema->release = release_schema;
  return 0;
}

static int get_next(struct ArrowArrayStream* stream, struct ArrowArray* array) {
  (void)stream;
  memset(array, 0, sizeof(*array));
  if (fault == kNoRows) return 5;
  if (sent || fault == kEmpty) return 0;
  sent = 1;
  for (int i = 0; i < kColumns; ++i) {
    memset(&arrays[i], 0, sizeof(arrays[i]));
    buffers[i][0] = NULL;
    buffers[i][1] = i == 0 && fault == kBadOffsets ? kWrongOffsets
                    : i == 0 && fault == kBadCell  ? kTextOffsets
                                                   : kOffsets;
    buffers[i][2] = i == 0 && fault == kNoBuffer ? NULL : kTexts;
    arrays[i].length = i == 0 && fault == kShortArray ? 1 : kRows;
    arrays[i].n_buffers = 3;
    arrays[i].buffers = buffers[i];
    arrays[i].release = release_array;
    array_pointers[i] = &arrays[i];
  }
  array->length = fault == kNegative ? -1 : kRows;
  array->n_buffers = 1;
  array->buffers = no_nulls;
  array->n_children = fault == kTooFewArrays ? 3 : kColumns;
  array->children = array_pointers;
  array->release = release_array;
  return 0;
}

static const char* get_last_error(struct ArrowArrayStream* stream) {
  (void)stream;
  return fault == kNoRows ? "the disk is gone" : NULL;
}

static struct ArrowArrayStream table(enum fault with) {
  fault = with;
  sent = 0;
  const struct ArrowArrayStream stream = {get_schema, get_next, get_last_error, release_stream,
                                          NULL};
  return stream;
}

/* Returns the code of simurgh_model_features for a table with a fault. Expects that the stream is
 * released. result: may be NULL. */
static int features(simurgh_model* model, enum fault with, simurgh_result* result) {
  simurgh_result own = {0};
  own.size = sizeof(own);
  struct ArrowArrayStream stream = table(with);
  const int before = released;
  const int code = simurgh_model_features(model, &stream, result == NULL ? &own : result);
  CHECK(released == before + 1);
  if (result == NULL) simurgh_memory_release(own.memory);
  return code;
}

/* Expects that two rows, of which the second one has no cell, have features. */
static void check_usable(simurgh_model* model) {
  simurgh_result result = {0};
  result.size = sizeof(result);
  OK(features(model, kNone, &result));
  CHECK(result.rows == kRows && result.bad_rows == 0 && result.outputs == NULL);
  CHECK(isfinite(result.dense[0]) && isfinite(result.embeddings[0]));
  simurgh_memory_release(result.memory);
}

static void check_open(const char* path) {
  simurgh_model* model = NULL;
  simurgh_model_options options = {0};
  options.size = 8;
  INVALID(simurgh_model_open(&options, &model), "simurgh_model_options.size: 8", "sizeof");
  options.size = sizeof(options);
  INVALID(simurgh_model_open(&options, &model), "path: missing");
  options.path = "nothing-here";
  INVALID(simurgh_model_open(&options, &model), "nothing-here");
  options.path = ".";
  INVALID(simurgh_model_open(&options, &model), "no checkpoint");
  options.path = path;
  options.version = "18446744073709551616";
  INVALID(simurgh_model_open(&options, &model), "18446744073709551616");
  options.version = "newest";
  INVALID(simurgh_model_open(&options, &model), "best");
  options.version = NULL;
  const char* const overrides[] = {"data.nothing=1"};
  options.overrides = overrides;
  options.override_count = 1;
  INVALID(simurgh_model_open(&options, &model), "data.nothing");
  CHECK(model == NULL);
  OK(simurgh_model_close(NULL));
}

static void check_tables(simurgh_model* model) {
  INVALID(features(model, kMissingColumn, NULL), "age");
  INVALID(features(model, kNoStruct, NULL), "no columns");
  INVALID(features(model, kTooFewArrays, NULL), "does not fit the schema");
  INVALID(features(model, kLists, NULL), "age", "lists");
  FAILED(features(model, kNoSchema, NULL), "its schema");
  FAILED(features(model, kNoRows, NULL), "its rows", "the disk is gone");
  check_usable(model);
  FAILED(features(model, kShortArray, NULL), "age", "1 of 2 rows");
  FAILED(features(model, kNoBuffer, NULL), "age", "a buffer is missing");
  FAILED(features(model, kBadOffsets, NULL), "age", "offsets of texts do not ascend");
  FAILED(features(model, kNegative, NULL), "damaged");
  check_usable(model);

  simurgh_result result = {0};
  INVALID(features(model, kNone, &result), "simurgh_result.size: 0");
  result.size = sizeof(result);
  OK(features(model, kEmpty, &result));
  CHECK(result.rows == 0);
  simurgh_memory_release(result.memory);
  OK(features(model, kBadCell, &result));
  CHECK(result.rows == kRows && result.bad_rows == 1);
  simurgh_memory_release(result.memory);
  struct ArrowArrayStream stream = table(kNone);
  result.size = sizeof(result);
  INVALID(simurgh_model_predict(model, &stream, &result), "program");
  CHECK(stream.release == NULL);
  INVALID(simurgh_model_features(model, NULL, &result), "table", "NULL");
  INVALID(simurgh_model_predict(model, NULL, &result), "table", "NULL");
  INVALID(simurgh_model_features(model, &stream, &result), "table", "released");
  check_usable(model);
}

static void check_rows(simurgh_model* model) {
  const uint64_t ids[2] = {0, UINT64_MAX};
  float weights[2 * 8];
  uint8_t found[2] = {7, 7};
  memset(weights, 1, sizeof(weights));
  OK(simurgh_model_rows(model, "workclass", ids, 2, weights, found));
  CHECK(found[0] == 0 && found[1] == 0 && weights[0] == 0 && weights[15] == 0);
  OK(simurgh_model_rows(model, "workclass", NULL, 0, NULL, NULL));
  INVALID(simurgh_model_rows(model, "nothing", ids, 2, weights, found), "nothing", "workclass");
  INVALID(simurgh_model_rows(model, NULL, ids, 2, weights, found), "feature", "NULL");
  INVALID(simurgh_model_rows(model, "workclass", NULL, 2, weights, found), "ids", "NULL");
  INVALID(simurgh_model_rows(model, "workclass", ids, 2, NULL, found), "weights", "NULL");
  INVALID(simurgh_model_rows(model, "workclass", ids, 2, weights, NULL), "found", "NULL");
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  check_open(argv[1]);
  simurgh_model_options options = {0};
  options.size = sizeof(options);
  options.path = argv[1];
  options.log_level = "off";
  simurgh_model* model = NULL;
  OK(simurgh_model_open(&options, &model));
  if (model == NULL) return 1;
  simurgh_inputs inputs = {0};
  INVALID(simurgh_model_inputs(model, &inputs), "simurgh_inputs.size: 0");
  inputs.size = sizeof(inputs);
  OK(simurgh_model_inputs(model, &inputs));
  CHECK(inputs.feature_count == 13 && inputs.dense_width == 5 && inputs.label_count == 1);
  check_usable(model);
  check_tables(model);
  check_rows(model);
  OK(simurgh_model_close(model));
  if (failures == 0) puts("all mistakes with a model have errors");
  return failures == 0 ? 0 : 1;
}
