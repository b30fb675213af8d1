/* Serves a model of example.c until SIGTERM. Prints the server's address.
 *
 * Usage: serve MODEL
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simurgh/simurgh.h"

static volatile sig_atomic_t stops = 0;

static void on_signal(int number) {
  (void)number;
  stops = 1;
}

static void check(int code, const char* what) {
  if (code == SIMURGH_OK) return;
  fprintf(stderr, "%s: %s\n", what, simurgh_last_error());
  exit(3);
}

/* The weights of the version in use: embeddings, dense columns, bias. */
typedef struct network {
  uint64_t dense_width;
  uint64_t width;
  float* weights;
} network;

/* Returns 0 for a state of another program. */
static int restore(const network* net, const simurgh_state* state) {
  const uint64_t count = net->width + net->dense_width + 1;
  if (state->tensor_count != 1 || state->tensors[0].dtype != SIMURGH_F32 ||
      state->tensors[0].dimensions != 1 || state->tensors[0].shape[0] != count) {
    return 0;
  }
  memcpy(net->weights, state->tensors[0].data, count * sizeof(float));
  return 1;
}

static void predict(const network* net, const simurgh_task* task, float* outputs) {
  for (uint64_t row = 0; row < task->rows; ++row) {
    float sum = net->weights[net->width + net->dense_width];
    for (uint64_t i = 0; i < net->width; ++i) {
      sum += net->weights[i] * task->embeddings[row * net->width + i];
    }
    for (uint64_t i = 0; i < net->dense_width; ++i) {
      sum += net->weights[net->width + i] * task->dense[row * net->dense_width + i];
    }
    outputs[row] = sum;
  }
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  simurgh_server_options options = {0};
  options.size = sizeof(options);
  options.model = argv[1];
  options.listen = "127.0.0.1:0";
  options.log_level = "warn";
  simurgh_server* server = NULL;
  check(simurgh_server_open(&options, &server), "open");
  simurgh_inputs inputs = {0};
  inputs.size = sizeof(inputs);
  check(simurgh_server_inputs(server, &inputs), "inputs");
  network net = {inputs.dense_width, inputs.embedding_width, NULL};
  net.weights = calloc(net.width + net.dense_width + 1, sizeof(float));
  simurgh_state state = {0};
  check(simurgh_server_start(server, &state), "start");
  if (net.weights == NULL || !restore(&net, &state)) return 3;
  const char* address = NULL;
  const char* url = NULL;
  check(simurgh_server_address(server, &address, &url), "address");
  printf("%s\n", address);
  fflush(stdout);
  signal(SIGTERM, on_signal);

  simurgh_task task = {0};
  task.size = sizeof(task);
  do {
    if (stops) check(simurgh_server_interrupt(server), "interrupt");
    check(simurgh_server_next(server, 50, &task), "next");
    if (task.kind == SIMURGH_PREDICT) {
      float* const outputs = malloc(task.rows * sizeof(float));
      if (outputs == NULL) {
        check(simurgh_server_failed(server, "out of memory"), "failed");
      } else {
        predict(&net, &task, outputs);
        check(simurgh_server_predicted(server, outputs, task.rows), "predicted");
      }
      free(outputs);
    } else if (task.kind == SIMURGH_RESTORE) {
      check(restore(&net, &task.state) ? simurgh_server_restored(server)
                                       : simurgh_server_failed(server, "another program's state"),
            "restored");
    }
    simurgh_memory_release(task.memory);
  } while (task.kind != SIMURGH_END);
  check(simurgh_server_close(server), "close");
  free(net.weights);
  return 0;
}
