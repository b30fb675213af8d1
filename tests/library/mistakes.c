/* Wrong calls of the C interface: each returns a code, has a text, and leaves the worker usable.
 *
 * Usage: mistakes CONFIG
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

#include "simurgh/simurgh.h"

static simurgh_worker_options options_of(const char* config, const char* const* overrides,
                                         uint64_t count) {
  simurgh_worker_options options = {0};
  options.size = sizeof(options);
  options.config_path = config;
  options.overrides = overrides;
  options.override_count = count;
  options.log_level = "off";
  return options;
}

static simurgh_task next(simurgh_worker* worker) {
  simurgh_task task = {0};
  task.size = sizeof(task);
  do {
    OK(simurgh_worker_next(worker, 1000, &task));
  } while (task.kind == SIMURGH_NONE && failures == 0);
  if (failures > 0) exit(1);
  return task;
}

static void check_open(const char* config) {
  simurgh_worker* worker = NULL;
  simurgh_worker_options options = options_of(config, NULL, 0);
  options.size = 8;
  INVALID(simurgh_worker_open(&options, &worker), "simurgh_worker_options.size: 8", "sizeof");
  CHECK(worker == NULL);
  options = options_of("no.yaml", NULL, 0);
  INVALID(simurgh_worker_open(&options, &worker), "no.yaml");
  options = options_of(NULL, NULL, 0);
  INVALID(simurgh_worker_open(&options, &worker), "the configuration is missing");
  const char* const bad[] = {"training.batch_size=0"};
  options = options_of(config, bad, 1);
  INVALID(simurgh_worker_open(&options, &worker), "training.batch_size: 0");
  const char* const async[] = {"training.mode=async"};
  options = options_of(config, async, 1);
  INVALID(simurgh_worker_open(&options, &worker), "async");
  options = options_of(config, NULL, 0);
  options.rank = 7;
  INVALID(simurgh_worker_open(&options, &worker), "7");
  CHECK(worker == NULL);
}

static void check_states(simurgh_worker* worker) {
  const uint64_t shape[] = {2, 1};
  const float numbers[] = {1, 2};
  simurgh_tensor tensors[] = {{"a", SIMURGH_F32, 2, shape, numbers},
                              {"a", SIMURGH_F32, 1, shape, numbers}};
  simurgh_state state = {"mistakes", "", tensors, 2};
  INVALID(simurgh_worker_saved(worker, &state), "state.tensors[1]", "a second 'a'");
  tensors[1].name = "sums";
  INVALID(simurgh_worker_saved(worker, &state), "state.tensors[1].name", "'sums'");
  tensors[1].name = NULL;
  INVALID(simurgh_worker_saved(worker, &state), "state.tensors[1].name", "''");
  tensors[1].name = "b";
  tensors[1].dtype = 99;
  INVALID(simurgh_worker_saved(worker, &state), "dtype 99");
  tensors[1].dtype = SIMURGH_U8;
  tensors[1].dimensions = 1000;
  INVALID(simurgh_worker_saved(worker, &state), "1000 dimensions");
  tensors[1].dimensions = 0; /* One number. */
  char* const text = malloc(((size_t)8 << 20) + 2);
  CHECK(text != NULL);
  memset(text, 'x', ((size_t)8 << 20) + 1);
  text[((size_t)8 << 20) + 1] = 0;
  state.text = text;
  INVALID(simurgh_worker_saved(worker, &state), "state.text: 8388609 bytes");
  state.text = "a text";
  OK(simurgh_worker_saved(worker, &state));
  INVALID(simurgh_worker_saved(worker, &state), "the task is none");
  free(text);
}

/* Trains four steps, with a mistake at every turn. Returns memory that outlives the worker. */
static simurgh_memory* check_training(const char* config, const char* const* overrides,
                                      uint64_t count, const float** kept) {
  simurgh_worker* worker = NULL;
  simurgh_worker_options options = options_of(config, overrides, count);
  OK(simurgh_worker_open(&options, &worker));
  if (worker == NULL) exit(1);
  simurgh_worker* second = NULL;
  INVALID(simurgh_worker_open(&options, &second), "this process has a worker");

  simurgh_inputs inputs = {0};
  INVALID(simurgh_worker_inputs(worker, &inputs), "simurgh_inputs.size: 0");
  inputs.size = sizeof(inputs);
  OK(simurgh_worker_inputs(worker, &inputs));
  CHECK(inputs.feature_count == 13 && inputs.embedding_width == 104 && inputs.dense_width == 5);
  CHECK(inputs.label_count == 1 && strcmp(inputs.labels[0], "income") == 0 && inputs.saves == 1);
  CHECK(strcmp(inputs.dense_columns[0], "age") == 0);
  CHECK(strcmp(inputs.features[12].name, "hours_per_week_id") == 0);
  CHECK(inputs.features[12].first_column == 96 && inputs.features[12].width == 8);
  CHECK(inputs.features[12].mask_width == 0);
  simurgh_state start;
  OK(simurgh_worker_start(worker, &start));
  CHECK(start.name == NULL && start.tensor_count == 0);

  simurgh_task task = {0};
  INVALID(simurgh_worker_next(worker, 0, &task), "simurgh_task.size: 0");
  float* const gradients = calloc(inputs.batch_size * inputs.embedding_width, sizeof(float));
  float* const outputs = calloc(inputs.batch_size, sizeof(float));
  if (gradients == NULL || outputs == NULL) exit(1);
  simurgh_step step = {sizeof(step), gradients, outputs, 0};
  INVALID(simurgh_worker_finish(worker, &step), "the task is none");
  simurgh_memory* memory = NULL;
  for (uint64_t i = 0; i < 4; ++i) {
    task = next(worker);
    CHECK(task.kind == SIMURGH_TRAIN && task.step == i && task.rows == inputs.batch_size &&
          task.weights == NULL);
    simurgh_task other = {0};
    other.size = sizeof(other);
    INVALID(simurgh_worker_next(worker, 0, &other), "a batch to train on", "has no answer");
    INVALID(simurgh_worker_predicted(worker, outputs, task.rows), "a batch to train on");
    INVALID(simurgh_worker_saved(worker, &start), "a batch to train on");
    INVALID(simurgh_worker_restored(worker), "a batch to train on");
    float sum = 2;
    OK(simurgh_worker_sum(worker, &sum, 1));
    int all = 0;
    OK(simurgh_worker_agree(worker, 7, &all));
    CHECK(sum == 2 && all == 1);
    OK(simurgh_worker_agree(worker, 0, &all));
    CHECK(all == 0);
    step.size = 4;
    INVALID(simurgh_worker_finish(worker, &step), "simurgh_step.size: 4");
    step.size = sizeof(step);
    step.gradients = NULL;
    INVALID(simurgh_worker_finish(worker, &step), "simurgh_step.gradients", "NULL");
    step.gradients = gradients;
    step.outputs = NULL;
    INVALID(simurgh_worker_finish(worker, &step), "simurgh_step.outputs", "NULL");
    step.outputs = outputs;
    gradients[5] = i == 2 ? INFINITY : 0; /* The step is left out. */
    OK(simurgh_worker_finish(worker, &step));
    INVALID(simurgh_worker_finish(worker, &step), "finished once");
    INVALID(simurgh_worker_sum(worker, &sum, 1), "the task is none");
    if (i == 0) {
      memory = task.memory;
      *kept = task.embeddings;
    } else {
      simurgh_memory_release(task.memory);
    }
  }
  uint64_t tested = 0;
  uint64_t saved = 0;
  for (task = next(worker); task.kind != SIMURGH_END; task = next(worker)) {
    if (task.kind == SIMURGH_SAVE) {
      check_states(worker);
      ++saved;
      continue;
    }
    CHECK(task.kind == SIMURGH_PREDICT && task.labels == NULL);
    INVALID(simurgh_worker_finish(worker, &step), "a batch to predict");
    INVALID(simurgh_worker_predicted(worker, outputs, task.rows - 1), "outputs: ", "expected (");
    INVALID(simurgh_worker_predicted(worker, NULL, task.rows), "outputs", "NULL");
    OK(simurgh_worker_predicted(worker, outputs, task.rows));
    simurgh_memory_release(task.memory);
    tested += task.rows;
  }
  CHECK(saved == 1 && tested >= 16281);
  task = next(worker);
  CHECK(task.kind == SIMURGH_END);
  const char* result = NULL;
  OK(simurgh_worker_result(worker, &result));
  CHECK(strstr(result, "test_auc=0.5") != NULL);
  OK(simurgh_worker_close(worker, NULL));
  free(gradients);
  free(outputs);
  return memory;
}

static simurgh_task next_of_server(simurgh_server* server) {
  simurgh_task task = {0};
  task.size = sizeof(task);
  do {
    OK(simurgh_server_next(server, 1000, &task));
  } while (task.kind == SIMURGH_NONE && failures == 0);
  if (failures > 0) exit(1);
  return task;
}

/* Serves a model of check_training, whose outputs are zeros. */
static void check_server(const char* model) {
  simurgh_server* server = NULL;
  simurgh_server_options options = {0};
  INVALID(simurgh_server_open(&options, &server), "simurgh_server_options.size: 0");
  options.size = sizeof(options);
  options.log_level = "off";
  options.listen = "127.0.0.1:0";
  INVALID(simurgh_server_open(&options, &server), "model: missing");
  options.model = "no-model";
  INVALID(simurgh_server_open(&options, &server), "no-model");
  options.model = model;
  options.listen = "nowhere";
  INVALID(simurgh_server_open(&options, &server), "serving.listen", "nowhere");
  options.listen = "127.0.0.1:0";
  options.config_path = "no.yaml";
  INVALID(simurgh_server_open(&options, &server), "no.yaml");
  options.config_path = NULL;
  CHECK(server == NULL);
  OK(simurgh_server_close(NULL));
  OK(simurgh_server_open(&options, &server));
  if (server == NULL) exit(1);
  simurgh_server* second = NULL;
  const char* address = NULL;
  const char* url = NULL;
  OK(simurgh_server_address(server, &address, &url));
  CHECK(strstr(url, address) != NULL && strstr(url, model) != NULL);
  options.listen = address;
  INVALID(simurgh_server_open(&options, &second), "in use");
  CHECK(second == NULL);
  simurgh_inputs inputs = {0};
  INVALID(simurgh_server_inputs(server, &inputs), "simurgh_inputs.size: 0");
  inputs.size = sizeof(inputs);
  OK(simurgh_server_inputs(server, &inputs));
  CHECK(inputs.embedding_width == 104 && inputs.dense_width == 5);
  simurgh_state state;
  OK(simurgh_server_start(server, &state));
  CHECK(strcmp(state.name, "mistakes") == 0);
  INVALID(simurgh_server_failed(server, "a reason"), "the task is none");
  int ready = 1;
  OK(simurgh_server_ready(server, &ready));
  CHECK(ready == 0);

  simurgh_task task = {0};
  INVALID(simurgh_server_next(server, 0, &task), "simurgh_task.size: 0");
  task = next_of_server(server);
  CHECK(task.kind == SIMURGH_RESTORE && task.step == 4 && strcmp(task.state.name, "mistakes") == 0);
  const float zeros[64] = {0};
  simurgh_task other = {0};
  other.size = sizeof(other);
  INVALID(simurgh_server_next(server, 0, &other), "a state to restore", "has no answer");
  INVALID(simurgh_server_predicted(server, zeros, 1), "a state to restore");
  OK(simurgh_server_restored(server));
  INVALID(simurgh_server_restored(server), "the task is", "not a state to restore");
  task = next_of_server(server);
  CHECK(task.kind == SIMURGH_PREDICT && task.rows > 1 && task.rows <= 64 && task.labels == NULL);
  INVALID(simurgh_server_restored(server), "a batch to predict");
  INVALID(simurgh_server_predicted(server, zeros, task.rows - 1), "outputs: ", "expected");
  INVALID(simurgh_server_predicted(server, NULL, task.rows), "outputs", "NULL");
  OK(simurgh_server_predicted(server, zeros, task.rows));
  CHECK(isfinite(task.embeddings[0]));
  simurgh_memory_release(task.memory);
  while (ready == 0 && failures == 0) OK(simurgh_server_ready(server, &ready));
  OK(simurgh_server_reload(server));
  OK(simurgh_server_interrupt(server));
  CHECK(next_of_server(server).kind == SIMURGH_END);
  OK(simurgh_server_ready(server, &ready));
  CHECK(ready == 0);
  OK(simurgh_server_close(server));

  /* A program that fails at the probe, and then ends without an answer. */
  options.listen = "127.0.0.1:0";
  OK(simurgh_server_open(&options, &server));
  CHECK(next_of_server(server).kind == SIMURGH_RESTORE);
  OK(simurgh_server_restored(server));
  task = next_of_server(server);
  simurgh_memory_release(task.memory);
  OK(simurgh_server_failed(server, "a reason"));
  int code = SIMURGH_OK;
  while (code == SIMURGH_OK) code = simurgh_server_ready(server, &ready);
  INVALID(simurgh_server_ready(server, &ready), "step 4 is not used", "a reason");
  OK(simurgh_server_reload(server)); /* Tries the version again. */
  task = next_of_server(server);
  CHECK(task.kind == SIMURGH_PREDICT);
  simurgh_memory_release(task.memory);
  OK(simurgh_server_close(server));
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  CHECK(simurgh_interface_version() == SIMURGH_INTERFACE_VERSION);
  CHECK(strlen(simurgh_version()) > 0);
  simurgh_memory_release(NULL);
  check_open(argv[1]);

  const char* const overrides[] = {"training.max_steps=4", "checkpoint.directory=mistakes-model"};
  const float* kept = NULL;
  simurgh_memory* const memory = check_training(argv[1], overrides, 2, &kept);
  CHECK(isfinite(kept[0]) && isfinite(kept[103]));
  simurgh_memory_release(memory);

  /* The model continues with the state that was saved. */
  simurgh_worker_options options = options_of(argv[1], overrides, 2);
  simurgh_worker* worker = NULL;
  OK(simurgh_worker_open(&options, &worker));
  simurgh_state state;
  OK(simurgh_worker_start(worker, &state));
  CHECK(strcmp(state.name, "mistakes") == 0 && strcmp(state.text, "a text") == 0);
  CHECK(state.tensor_count == 2 && state.tensors[0].shape[1] == 1 &&
        state.tensors[1].dimensions == 0);
  OK(simurgh_worker_close(worker, NULL)); /* Training has not begun. */

  /* A program that fails in a step. */
  const char* const others[] = {"checkpoint.directory=mistakes-failed"};
  options = options_of(argv[1], others, 1);
  OK(simurgh_worker_open(&options, &worker));
  simurgh_task task = next(worker);
  OK(simurgh_worker_close(worker, "a reason"));
  CHECK(isfinite(task.embeddings[0]));
  simurgh_memory_release(task.memory);

  /* An interrupt in the first step. */
  options = options_of(argv[1], NULL, 0);
  OK(simurgh_worker_open(&options, &worker));
  task = next(worker);
  OK(simurgh_worker_interrupt(worker));
  simurgh_memory_release(task.memory);
  OK(simurgh_worker_close(worker, NULL));
  check_server("mistakes-model");

  if (failures == 0) puts("all mistakes have errors");
  return failures == 0 ? 0 : 1;
}
