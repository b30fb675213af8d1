/* The C interface of Simurgh: programs in any language train on a cluster, predict and serve.
 *
 * C11, libsimurgh.so. Functions return SIMURGH_OK or another simurgh_code, and then
 * simurgh_last_error() has the text that the command line would print. Strings are UTF-8 and end in
 * a zero. Pointers must not be NULL unless a comment says so; the functions that close and release
 * accept NULL. Handles are opaque. Numbers of arrays are in the byte order of the machine,
 * row-major and without gaps.
 *
 * Structs that the caller fills begin with `size`, which is sizeof of the struct, so that later
 * versions can add members. Set members that are not used to zero.
 *
 * Threads: a handle has one owner at a time, except where a function says otherwise. Different
 * handles may be used by different threads. After fork(), the child must not use handles of its
 * parent: functions that train, feed or predict then return SIMURGH_INVALID.
 */
#ifndef SIMURGH_SIMURGH_H_
#define SIMURGH_SIMURGH_H_

#include <stdint.h>

#include "simurgh/arrow_c_data.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(SIMURGH_LIBRARY)
#define SIMURGH_API __attribute__((visibility("default")))
#else
#define SIMURGH_API
#endif

/* Changes with each incompatible change of this header. */
#define SIMURGH_INTERFACE_VERSION 1

/* Values as the exit codes of the programs. */
enum simurgh_code {
  SIMURGH_OK = 0,
  SIMURGH_INVALID = 2,    /* Bad arguments or configuration, or a call at the wrong time. */
  SIMURGH_FAILED = 3,     /* Failed while running. */
  SIMURGH_START_AGAIN = 4 /* Another process was lost: open again, to continue from the last
                           * checkpoint. */
};

/* Returns the SIMURGH_INTERFACE_VERSION of the library. */
SIMURGH_API uint32_t simurgh_interface_version(void);
/* Returns the version of the library, such as "0.1.0". Lifetime: the process. */
SIMURGH_API const char* simurgh_version(void);
/* Returns the error of this thread's last call that failed. Lifetime: until the thread's next call
 * of another function of this header. */
SIMURGH_API const char* simurgh_last_error(void);

/* --- Tensors. */

enum simurgh_dtype {
  SIMURGH_U8 = 0,
  SIMURGH_U16 = 1,
  SIMURGH_U32 = 2,
  SIMURGH_U64 = 3,
  SIMURGH_F16 = 4,
  SIMURGH_F32 = 5,
  SIMURGH_F64 = 6
};

typedef struct simurgh_tensor {
  const char* name; /* Not empty; distinct in a state; neither "sums" nor "__metadata__". */
  uint32_t dtype;   /* simurgh_dtype */
  uint32_t dimensions;
  const uint64_t* shape; /* [dimensions] */
  const void* data;
} simurgh_tensor;

/* What a program keeps in a model besides the rows: tensors, such as weights and the state of its
 * optimizer, and a text for everything else. The model keeps both byte by byte. */
typedef struct simurgh_state {
  const char* name; /* Name of the network, such as its class; shown by `simurgh model info`. */
  const char* text; /* At most 8 MiB. */
  const simurgh_tensor* tensors;
  uint64_t tensor_count;
} simurgh_state;

/* --- Training with a network of the program's own.
 *
 * A worker is one rank of a training, in place of a process nn-worker: it reads the data, gets
 * embeddings from the cluster, pushes their gradients, evaluates and saves. The program computes
 * the dense network. It takes tasks and answers each before it takes the next one:
 *
 *   simurgh_worker_open(&options, &worker);
 *   while (simurgh_worker_next(worker, 100, &task) == SIMURGH_OK && task.kind != SIMURGH_END) {
 *     switch (task.kind) {
 *       case SIMURGH_NONE: break;
 *       case SIMURGH_TRAIN: ... simurgh_worker_finish(worker, &step); break;
 *       case SIMURGH_PREDICT: ... simurgh_worker_predicted(worker, outputs, count); break;
 *       case SIMURGH_SAVE: ... simurgh_worker_saved(worker, &state); break;
 *       case SIMURGH_RESTORE: ... simurgh_worker_restored(worker); break;
 *     }
 *     simurgh_memory_release(task.memory);
 *   }
 *   simurgh_worker_result(worker, &text);
 *   simurgh_worker_close(worker, NULL);
 */
typedef struct simurgh_worker simurgh_worker;

typedef struct simurgh_worker_options {
  uint64_t size;
  /* A YAML file without `model`, or with only its `loss` and `tasks`. NULL: the file of the
   * `simurgh train FILE -- PROGRAM` that has started this process. */
  const char* config_path;
  const char* const* overrides; /* [override_count] "key=value", as --set of the programs. */
  uint64_t override_count;
  uint32_t rank;      /* Index into nn_worker.instances. */
  uint32_t joins;     /* 1: the daemons of the configuration run, or will, as below `simurgh train`.
                       * 0: the servers and an embedding worker run in this process, unless it
                       * was started by `simurgh train`; one rank only. */
  const char* resume; /* As --resume of nn-worker; NULL: "auto". */
  const char* log_level; /* As --log-level of nn-worker; NULL: "info". Lines go to stderr. */
} simurgh_worker_options;

/* A feature's columns of the embeddings. */
typedef struct simurgh_feature {
  const char* name;
  uint64_t first_column; /* In the embeddings. */
  uint64_t width;        /* dim; of a raw feature (rows, dim): rows x dim. */
  uint64_t dim;
  uint64_t mask_width;        /* Rows of a raw feature with a mask; else 0. */
  uint64_t first_mask_column; /* In the dense columns; 1 where a row has an id, else 0. */
} simurgh_feature;

/* What a program's network reads and predicts. */
typedef struct simurgh_inputs {
  uint64_t size;
  const simurgh_feature* features;
  uint64_t feature_count;
  uint64_t embedding_width;         /* Columns of the embeddings. */
  const char* const* dense_columns; /* [dense_width] names; the features' masks are last. */
  uint64_t dense_width;
  const char* const* labels; /* [label_count] names. */
  const char* const* losses; /* [label_count] "bce", "focal", "squared_error" or "poisson". */
  uint64_t label_count;
  uint64_t batch_size; /* Most samples of a batch. */
  uint32_t rank;
  uint32_t ranks;
  uint32_t saves;    /* 1: the training has a folder for its model, so the program must answer
                      * SIMURGH_SAVE, and SIMURGH_PREDICT for a few rows of each checkpoint. */
  uint32_t predicts; /* 1: the training evaluates, or saves: the program must answer
                      * SIMURGH_PREDICT. */
  uint32_t weighs;   /* 1: the samples have weights. */
} simurgh_inputs;

enum simurgh_task_kind {
  SIMURGH_NONE = 0,    /* Nothing to do yet. */
  SIMURGH_TRAIN = 1,   /* Compute gradients of a batch: simurgh_worker_finish. */
  SIMURGH_PREDICT = 2, /* Predict a batch of an evaluation, or of a checkpoint's probe:
                        * simurgh_worker_predicted. */
  SIMURGH_SAVE = 3,    /* Hand out the state: simurgh_worker_saved. */
  SIMURGH_RESTORE = 4, /* Take over `state`: simurgh_worker_restored. */
  SIMURGH_END = 5      /* Training has ended. */
};

/* The memory of a task's arrays. */
typedef struct simurgh_memory simurgh_memory;

typedef struct simurgh_task {
  uint64_t size;
  uint32_t kind;      /* simurgh_task_kind */
  uint64_t step;      /* SIMURGH_TRAIN: number of the step, from 0. */
  uint64_t rows;      /* Samples; 0 if this rank's share of an epoch has ended before another's. */
  const float* dense; /* [rows][dense_width] */
  const float* embeddings; /* [rows][embedding_width] */
  const float* labels;     /* SIMURGH_TRAIN: [rows][label_count]; NaN: not known. */
  const float* weights;    /* SIMURGH_TRAIN: [rows]; NULL without sample weights. */
  simurgh_memory* memory;  /* Owner of the arrays; NULL without arrays. */
  simurgh_state state;     /* SIMURGH_RESTORE. Lifetime: until the answer. */
} simurgh_task;

/* Starts a rank. Reads and checks the configuration, and starts threads; training begins when the
 * first task is asked for. A process has one worker at a time.
 * Errors: SIMURGH_INVALID for the configuration, an open worker, or a model that does not fit. */
SIMURGH_API int simurgh_worker_open(const simurgh_worker_options* options, simurgh_worker** worker);

/* Describes the inputs. inputs->size must be set. Lifetime of the arrays: the worker's. */
SIMURGH_API int simurgh_worker_inputs(simurgh_worker* worker, simurgh_inputs* inputs);

/* Returns the state of the model that training continues; name is NULL for a new model. Take it
 * over before the first task. Lifetime: the worker's. */
SIMURGH_API int simurgh_worker_start(simurgh_worker* worker, simurgh_state* state);

/* Waits for the next task, for timeout_ms at most. task->size must be set. The arrays stay valid
 * until simurgh_memory_release, also after the task's answer.
 * Errors: SIMURGH_INVALID if the last task has no answer; SIMURGH_FAILED and
 * SIMURGH_START_AGAIN if training has ended so; it stays ended. */
SIMURGH_API int simurgh_worker_next(simurgh_worker* worker, uint64_t timeout_ms,
                                    simurgh_task* task);

typedef struct simurgh_step {
  uint64_t size;
  const float* gradients; /* [rows][embedding_width]: derivatives of the batch's loss, usually the
                           * mean over its samples, with respect to the embeddings. */
  const float* outputs;   /* [rows][label_count]: the network's outputs before the step. They are
                           * logits for "bce" and "focal", the value for "squared_error", and its
                           * logarithm for "poisson". */
  uint32_t skipped;       /* 1: the program has left its dense step out. */
} simurgh_step;

/* Answers SIMURGH_TRAIN. Reads the arrays before it returns. Ranks minimise the mean of their
 * losses: the embeddings' gradients are divided by the number of ranks. Gradients that are not
 * finite, or with outputs that are not, are not pushed. */
SIMURGH_API int simurgh_worker_finish(simurgh_worker* worker, const simurgh_step* step);

/* Answers SIMURGH_PREDICT. outputs: [rows][label_count], as in simurgh_step; count: rows x
 * label_count. */
SIMURGH_API int simurgh_worker_predicted(simurgh_worker* worker, const float* outputs,
                                         uint64_t count);

/* Answers SIMURGH_SAVE. Copies the state. */
SIMURGH_API int simurgh_worker_saved(simurgh_worker* worker, const simurgh_state* state);

/* Answers SIMURGH_RESTORE. */
SIMURGH_API int simurgh_worker_restored(simurgh_worker* worker);

/* Replaces numbers by their sums over the ranks, added in rank order: the same bits on all ranks.
 * Call it between simurgh_worker_next and simurgh_worker_finish of a step, on all ranks in the same
 * order with the same count. */
SIMURGH_API int simurgh_worker_sum(simurgh_worker* worker, float* numbers, uint64_t count);

/* Sets `all` to 1 if all ranks pass yes != 0, else to 0. Call it as simurgh_worker_sum. */
SIMURGH_API int simurgh_worker_agree(simurgh_worker* worker, int yes, int* all);

/* Ends training on all ranks, and saves the model if it has a folder. Batches that have been read,
 * at most training.loader_queue_batches and those in flight, are trained on before. Without a
 * folder they are not. Threads: any. */
SIMURGH_API int simurgh_worker_interrupt(simurgh_worker* worker);

/* Returns the result of a training that has ended: lines of warnings, then a line of metrics, as
 * `simurgh train` prints them; empty before the end, after an interrupt, and on ranks other than 0.
 * Lifetime: the worker's. */
SIMURGH_API int simurgh_worker_result(simurgh_worker* worker, const char** text);

/* Ends the worker and frees it. failure: the reason why the program ends before SIMURGH_END, which
 * other ranks then report; NULL: none. A training that has not ended is stopped, without a save.
 * Memory of tasks stays valid. Waits for threads, some seconds at most. Returns SIMURGH_OK, or how
 * training ended. */
SIMURGH_API int simurgh_worker_close(simurgh_worker* worker, const char* failure);

/* Frees the arrays of a task; NULL: nothing. Threads: any. */
SIMURGH_API void simurgh_memory_release(simurgh_memory* memory);

/* --- Feeding a training with rows of the program's own.
 *
 * A loader is a process of loaders.instances, in place of simurgh-feed. It feeds tables of raw
 * columns, which are processed as files are, or samples with ready ids; not both. The library
 * collects rows in batches, whatever the sizes of tables, and repeats a batch until the trainer has
 * it. A training that continues from a checkpoint has trained on earlier rows: the program makes
 * the same rows again, in the same order, and leaves out the first simurgh_loader_rows() of them.
 *
 *   simurgh_loader_open(&options, &loader);
 *   simurgh_loader_rows(loader, &rows);
 *   ... for each table of the rows from there on, while wanted:
 *     simurgh_loader_feed_table(loader, &stream, &wanted);
 *   simurgh_loader_end(loader);
 *   simurgh_loader_close(loader);
 */
typedef struct simurgh_loader simurgh_loader;

typedef struct simurgh_loader_options {
  uint64_t size;
  const char* config_path;      /* See simurgh_worker_options. */
  const char* const* overrides; /* [override_count] */
  uint64_t override_count;
  uint32_t index;        /* Index into loaders.instances. */
  const char* log_level; /* See simurgh_worker_options. */
} simurgh_loader_options;

/* The ids of a feature. */
typedef struct simurgh_ids {
  const uint64_t* offsets; /* [rows + 1], ascending from 0: sample i has ids[offsets[i]] to
                            * ids[offsets[i + 1] - 1]. NULL: each sample has one. */
  const uint64_t* ids;
  const float* weights; /* One per id, finite; NULL: all 1. */
} simurgh_ids;

typedef struct simurgh_samples {
  uint64_t size;
  uint64_t rows;
  const simurgh_ids* features; /* [feature_count], in the order of simurgh_inputs. */
  const float* dense;          /* [rows][dense_width], without masks; NULL if dense_width is 0. */
  const float* labels;         /* [rows][label_count]; NaN: not known. */
  const float* weights;        /* [rows], at least 0; NULL: all 1. */
} simurgh_samples;

/* Connects to all nn-workers, and waits for them up to training.retry_deadline.
 * Errors: SIMURGH_INVALID for the configuration, or settings that differ from the trainer's. */
SIMURGH_API int simurgh_loader_open(const simurgh_loader_options* options, simurgh_loader** loader);

/* Describes what the loader feeds. inputs->size must be set. Lifetime of the arrays: the
 * loader's. */
SIMURGH_API int simurgh_loader_inputs(simurgh_loader* loader, simurgh_inputs* inputs);

/* Sets `rows` to the number of rows of this loader that training had before. Feed the rows after
 * them. */
SIMURGH_API int simurgh_loader_rows(simurgh_loader* loader, uint64_t* rows);

/* Feeds the rows of a table, and takes over its stream, which is released also after an error.
 * Waits, without a limit, while the trainer is busy. Sets `wanted` to 0 if training needs no more.
 * Errors: SIMURGH_INVALID for a bad row, unless data.on_bad_row skips it, or a column that is
 * missing; SIMURGH_START_AGAIN if the trainer was lost. */
SIMURGH_API int simurgh_loader_feed_table(simurgh_loader* loader, struct ArrowArrayStream* table,
                                          int* wanted);

/* Feeds samples; otherwise as simurgh_loader_feed_table. Reads the arrays before it returns. */
SIMURGH_API int simurgh_loader_feed_samples(simurgh_loader* loader, const simurgh_samples* samples,
                                            int* wanted);

/* Feeds the last rows, waits until the trainer has all of them, and ends the share. */
SIMURGH_API int simurgh_loader_end(simurgh_loader* loader);

/* Tells the trainer that the rest cannot be fed: training fails with the reason. */
SIMURGH_API int simurgh_loader_abandon(simurgh_loader* loader, const char* reason);

/* Ends present and later waits of the loader with an error. Threads: any. */
SIMURGH_API int simurgh_loader_stop(simurgh_loader* loader);

/* Frees the loader. A share that has not ended can be fed on by a new process within
 * loaders.timeout. */
SIMURGH_API int simurgh_loader_close(simurgh_loader* loader);

/* --- Trained models: predictions, the inputs of a network, rows by id.
 *
 * Processes rows as training did. A call uses one version of the model from its begin to its end.
 *
 *   simurgh_model_open(&options, &model);
 *   simurgh_model_predict(model, &table, &result);
 *   ... result.outputs[row * label_count + label] ...
 *   simurgh_memory_release(result.memory);
 *   simurgh_model_close(model);
 *
 * Threads: all functions but simurgh_model_close may be called by any number of threads at once.
 */
typedef struct simurgh_model simurgh_model;

typedef struct simurgh_model_options {
  uint64_t size;
  const char* path; /* The model's folder. */
  const char*
      version; /* "best" or NULL: the best checkpoint, or else the newest; "latest"; a step. */
  const char* const*
      overrides; /* [override_count] "key=value", for vocabularies that are elsewhere. */
  uint64_t override_count;
  uint32_t follows;        /* 1: changes over to later ones of this kind, as `simurgh serve`, unless
                            * `version` is a step. Calls are SIMURGH_INVALID while that has
                            * other inputs or labels than the first one. */
  uint32_t allows_plugins; /* 1: runs the plug-ins, native code, that the model names. */
  const char* log_level;   /* NULL: "warn". */
  const char*
      rows; /* NULL or "memory": loads the rows. "mapped": maps their files. "HOST:PORT,...":
             * reads them from processes `row-server`, in the order of their --index. */
  const char* row_precision; /* NULL or "f32": as the model stores them. "bf16" or "int8": in
                              * memory, or as they are sent. */
} simurgh_model_options;

typedef struct simurgh_result {
  uint64_t size;
  uint64_t step;        /* Step of the version. */
  uint64_t rows;        /* Rows of the table. */
  const float* outputs; /* simurgh_model_predict: [rows][label_count] probabilities, or numbers in
                         * the unit of the label; NaN in a bad row. Else NULL. */
  const float* dense;   /* simurgh_model_features: [rows][dense_width]; NaN in a bad row. */
  const float* embeddings; /* simurgh_model_features: [rows][embedding_width], pooled; NaN in a bad
                            * row. */
  uint64_t bad_rows;       /* Rows that cannot be parsed. The log has the first ones. */
  simurgh_memory* memory;  /* Owner of the arrays: simurgh_memory_release. */
} simurgh_result;

/* Loads a model, and checks it by its probe. Overrides of serving, rpc and cluster.token_file are
 * those of `simurgh serve`: serving.request_timeout is the time to wait for servers of rows.
 * Errors: SIMURGH_INVALID without a model, or for one that cannot be used here; SIMURGH_FAILED for
 * a damaged one, or for servers of rows that do not answer or lack the version. */
SIMURGH_API int simurgh_model_open(const simurgh_model_options* options, simurgh_model** model);

/* Describes what the model reads and predicts; rank, ranks and saves are 0. inputs->size must be
 * set. Lifetime of the arrays: the model's. */
SIMURGH_API int simurgh_model_inputs(simurgh_model* model, simurgh_inputs* inputs);

/* Sets `step` to that of the version in use. */
SIMURGH_API int simurgh_model_step(simurgh_model* model, uint64_t* step);

/* A checkpoint in the model's folder. */
typedef struct simurgh_checkpoint {
  uint64_t step;
  int64_t seconds;     /* Time at which the step ended, in seconds since 1970; 0 if it cannot be
                        * read. */
  uint64_t parent;     /* Step of the checkpoint that a delta continues; 0 of a full one. */
  uint32_t is_delta;   /* 1: a delta. */
  uint32_t is_used;    /* 1: the version in use. */
  uint32_t is_best;    /* 1: the training's best checkpoint. */
  uint32_t is_pinned;  /* 1: the file `pin` holds followers at it. */
  const char* problem; /* Why it cannot be used, as far as a follower has tried, or its manifest
                        * shows; NULL: nothing is known. */
} simurgh_checkpoint;

typedef struct simurgh_checkpoints {
  uint64_t size;
  const simurgh_checkpoint* checkpoints; /* [count], ascending by step. */
  uint64_t count;
  simurgh_memory* memory; /* Owner of the array: simurgh_memory_release. */
} simurgh_checkpoints;

/* Lists the checkpoints in the model's folder. checkpoints->size must be set. The version in use
 * may be missing: training removes old ones, and the model keeps what it has loaded. Errors:
 * SIMURGH_INVALID if the folder is gone. */
SIMURGH_API int simurgh_model_versions(simurgh_model* model, simurgh_checkpoints* checkpoints);

/* Predicts the rows of a table, and takes over its stream. Columns are found by name; those of
 * labels may be missing. result->size must be set. Errors: SIMURGH_INVALID for a missing column or
 * another type, or if a program has the network; SIMURGH_FAILED for a table that fails or is
 * damaged. */
SIMURGH_API int simurgh_model_predict(simurgh_model* model, struct ArrowArrayStream* table,
                                      simurgh_result* result);

/* Computes what a network reads of the rows. Otherwise as simurgh_model_predict. */
SIMURGH_API int simurgh_model_features(simurgh_model* model, struct ArrowArrayStream* table,
                                       simurgh_result* result);

typedef struct simurgh_vectors {
  uint64_t size;
  uint64_t step;          /* Step of the version. */
  uint64_t rows;          /* Rows of the table. */
  uint64_t width;         /* Numbers of a vector. */
  const float* vectors;   /* [rows][width]; NaN in a bad row. */
  uint64_t bad_rows;      /* Rows that cannot be parsed. The log has the first ones. */
  simurgh_memory* memory; /* Owner of the array: simurgh_memory_release. */
} simurgh_vectors;

/* Computes the vectors of a model of two towers. tower: "user" or "item"; the table may lack
 * columns that only the other tower reads. The dot product of a user's and an item's vector is the
 * model's prediction. vectors->size must be set. Otherwise as simurgh_model_predict. */
SIMURGH_API int simurgh_model_vectors(simurgh_model* model, struct ArrowArrayStream* table,
                                      const char* tower, simurgh_vectors* vectors);

typedef struct simurgh_recommend_options {
  uint64_t size;
  uint64_t k;               /* Items for a user, 1 to 10000. */
  const char* const* items; /* [item_count] Files of items, one row an item; none: data.items. */
  uint64_t item_count;
  const char* item_id;        /* Column that names items. NULL: that of data.items, or the only id
                               * column of the item's tower. */
  const char* const* exclude; /* [exclude_count] Ids of items that are left out; unknown ones are
                               * ignored. */
  uint64_t exclude_count;
  const char* const* filter_columns; /* [filter_count] Columns of the items. */
  const char* const* filter_values;  /* [filter_count] Only items whose cell of the column has the
                                      * value. Pairs of one column are alternatives. All columns
                                      * must fit. NULL: no value. */
  uint64_t filter_count;
} simurgh_recommend_options;

typedef struct simurgh_recommendations {
  uint64_t size;
  uint64_t step;          /* Step of the version. */
  uint64_t rows;          /* Rows of the table. */
  uint64_t k;             /* Items of a row. */
  const char* const* ids; /* [rows][k], the best item first. NULL: there are fewer, or a bad row. */
  const float* scores;    /* [rows][k], as simurgh_model_predict gives them; else NaN. */
  uint64_t bad_rows;      /* Rows that cannot be parsed. The log has the first ones. */
  simurgh_memory* memory; /* Owner of the arrays and texts: simurgh_memory_release. */
} simurgh_recommendations;

/* Finds the best items for users by a model of two towers, as `simurgh serve` does. The table may
 * lack columns that only the item's tower reads. The first call, and one after a change of version
 * or files, reads the items and keeps their vectors. serving.item_precision and
 * serving.item_graph_from apply. Both `size` must be set. Errors: SIMURGH_INVALID for a value out
 * of range, an unknown column of a filter, another model, or without items; otherwise as
 * simurgh_model_predict. */
SIMURGH_API int simurgh_model_recommend(simurgh_model* model, struct ArrowArrayStream* table,
                                        const simurgh_recommend_options* options,
                                        simurgh_recommendations* recommendations);

typedef struct simurgh_evaluation {
  uint64_t size;
  const char* text;  /* Metrics as `simurgh predict --evaluate` prints them: "test_auc=0.8 ...". */
  uint64_t rows;     /* Rows of the table. */
  uint64_t bad_rows; /* Rows, or labels, that cannot be parsed. */
  simurgh_memory* memory; /* Owner of the text: simurgh_memory_release. */
} simurgh_evaluation;

/* Compares predictions of a table's rows with their labels, and takes over its stream. outputs:
 * [rows][label_count], count numbers, of the program's network for all rows of the table, also for
 * bad ones: see simurgh_worker_predicted; NULL: the network of the configuration predicts.
 * evaluation->size must be set. Errors: those of simurgh_model_predict; SIMURGH_INVALID for missing
 * labels, or outputs that are not finite. */
SIMURGH_API int simurgh_model_evaluate(simurgh_model* model, struct ArrowArrayStream* table,
                                       const float* outputs, uint64_t count,
                                       simurgh_evaluation* evaluation);

/* Reads rows of a feature's table by id. ids: [count], as `simurgh export embeddings` has them.
 * weights: [count][dim], zeros for an id without a row. found: [count] 1 or 0. */
SIMURGH_API int simurgh_model_rows(simurgh_model* model, const char* feature, const uint64_t* ids,
                                   uint64_t count, float* weights, uint8_t* found);

/* Frees the model, once no call is under way. */
SIMURGH_API int simurgh_model_close(simurgh_model* model);

/* --- Serving a model with the network of the program.
 *
 * The server of `simurgh serve`, for models that a simurgh_worker has trained: the library answers
 * HTTP requests, turns rows into embeddings and gathers requests in batches; the program computes
 * the network's outputs. It takes one task after another, and answers each:
 *
 *   simurgh_server_open(&options, &server);
 *   ... until task.kind is SIMURGH_END:
 *     simurgh_server_next(server, 100, &task);
 *     SIMURGH_RESTORE: take over task.state; simurgh_server_restored(server);
 *     SIMURGH_PREDICT: simurgh_server_predicted(server, outputs, count);
 *                      simurgh_memory_release(task.memory);
 *   simurgh_server_close(server);
 *
 * Batches are of the version that the last SIMURGH_RESTORE had. A new version is restored, and must
 * predict the rows of its probe, before it is used. Versions may alternate meanwhile.
 *
 * Threads: simurgh_server_ready, simurgh_server_reload and simurgh_server_interrupt: any.
 */
typedef struct simurgh_server simurgh_server;

typedef struct simurgh_server_options {
  uint64_t size;
  const char* model;       /* The model's folder; NULL: serving.model of the configuration. */
  const char* listen;      /* "host:port", port 0: any free one; NULL: serving.listen. */
  const char* config_path; /* A YAML file with the section `serving`; NULL: none. */
  const char* const*
      overrides; /* [override_count] "key=value", of serving or of the model's configuration. */
  uint64_t override_count;
  const char* log_level; /* NULL: "info". Lines go to stderr. */
} simurgh_server_options;

/* Starts the server. It listens, but is not ready before the program has answered the tasks of a
 * version. Errors: SIMURGH_INVALID for the configuration, an address in use, a missing model, or
 * one whose network is that of its configuration. */
SIMURGH_API int simurgh_server_open(const simurgh_server_options* options, simurgh_server** server);

/* Describes what the network reads and predicts; rank, ranks and saves are 0. inputs->size must be
 * set. Lifetime of the arrays: the server's. */
SIMURGH_API int simurgh_server_inputs(simurgh_server* server, simurgh_inputs* inputs);

/* Returns the state of the version that the folder had at the start, so that a program can check
 * that it fits. Lifetime: the server's. */
SIMURGH_API int simurgh_server_start(simurgh_server* server, simurgh_state* state);

/* Returns the "host:port", and the URL of the model in the protocol v2. Lifetime: the server's. */
SIMURGH_API int simurgh_server_address(simurgh_server* server, const char** address,
                                       const char** url);

/* Sets `ready` to 1 if a version answers requests, else to 0. Errors: SIMURGH_INVALID if a version
 * was refused and there is no other one. */
SIMURGH_API int simurgh_server_ready(simurgh_server* server, int* ready);

/* Waits for the next task, for timeout_ms at most: SIMURGH_NONE, SIMURGH_PREDICT, SIMURGH_RESTORE
 * or SIMURGH_END, which comes after simurgh_server_interrupt, once all requests are answered.
 * task->size must be set; task->step is that of the version. The arrays stay valid until
 * simurgh_memory_release, a state until the answer. Errors: SIMURGH_INVALID if the last task has no
 * answer. */
SIMURGH_API int simurgh_server_next(simurgh_server* server, uint64_t timeout_ms,
                                    simurgh_task* task);

/* Answers SIMURGH_PREDICT. outputs: see simurgh_worker_predicted. Reads them before it returns. The
 * server makes calibrated probabilities of them. A row with an output that is not finite fails its
 * request with 400. */
SIMURGH_API int simurgh_server_predicted(simurgh_server* server, const float* outputs,
                                         uint64_t count);

/* Answers SIMURGH_RESTORE. */
SIMURGH_API int simurgh_server_restored(simurgh_server* server);

/* Answers SIMURGH_PREDICT or SIMURGH_RESTORE: the program cannot do it. Requests of the batch are
 * predicted one by one, and those that fail again get 500 with the reason. A version that cannot be
 * restored is not used. */
SIMURGH_API int simurgh_server_failed(simurgh_server* server, const char* reason);

/* Reads the certificate, the tokens and the version again, as SIGHUP of `simurgh serve`. After an
 * error nothing has changed. */
SIMURGH_API int simurgh_server_reload(simurgh_server* server);

/* Stops the server: new requests get 503, and those that have arrived are answered within 10 s,
 * while the program answers tasks until SIMURGH_END. */
SIMURGH_API int simurgh_server_interrupt(simurgh_server* server);

/* Stops the server and frees it. Before SIMURGH_END, requests that wait for the program get 503. */
SIMURGH_API int simurgh_server_close(simurgh_server* server);

#ifdef __cplusplus
}
#endif

#endif /* SIMURGH_SIMURGH_H_ */
