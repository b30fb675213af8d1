/* Trains a logistic regression over all embeddings and dense columns, and prints the result.
 *
 * Usage: example CONFIG [KEY=VALUE...]
 * CONFIG has no `model`. Servers and an embedding worker run in this process, unless `simurgh train
 * CONFIG -- example CONFIG` has started it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simurgh/simurgh.h"

/* The network: output = bias + sum over the columns of weight * value. */
typedef struct network {
  uint64_t dense_width;
  uint64_t width; /* Of the embeddings. */
  float* weights; /* [width + dense_width + 1]: embeddings, dense columns, bias. */
} network;

static const float kLearningRate = 0.5F;

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, simurgh_last_error());
  exit(3);
}

static void* allocate(uint64_t count) {
  float* const numbers = calloc(count > 0 ? count : 1, sizeof(float));
  if (numbers == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(3);
  }
  return numbers;
}

static uint64_t weight_count(const network* net) { return net->width + net->dense_width + 1; }

static void predict(const network* net, const simurgh_task* task, float* outputs) {
  for (uint64_t row = 0; row < task->rows; ++row) {
    const float* const embeddings = task->embeddings + row * net->width;
    const float* const dense = task->dense + row * net->dense_width;
    float sum = net->weights[weight_count(net) - 1];
    for (uint64_t i = 0; i < net->width; ++i) sum += net->weights[i] * embeddings[i];
    for (uint64_t i = 0; i < net->dense_width; ++i) sum += net->weights[net->width + i] * dense[i];
    outputs[row] = sum;
  }
}

/* Sets the gradients of the mean loss, and makes a step of gradient descent. */
static void train(const network* net, const simurgh_task* task, const float* outputs,
                  float* gradients) {
  const uint64_t count = weight_count(net);
  float* const steps = allocate(count);
  for (uint64_t row = 0; row < task->rows; ++row) {
    const float* const embeddings = task->embeddings + row * net->width;
    const float* const dense = task->dense + row * net->dense_width;
    const float difference = 1.0F / (1.0F + expf(-outputs[row])) - task->labels[row];
    const float derivative = difference / (float)task->rows;
    for (uint64_t i = 0; i < net->width; ++i) {
      gradients[row * net->width + i] = derivative * net->weights[i];
      steps[i] += derivative * embeddings[i];
    }
    for (uint64_t i = 0; i < net->dense_width; ++i) steps[net->width + i] += derivative * dense[i];
    steps[count - 1] += derivative;
  }
  for (uint64_t i = 0; i < count; ++i) net->weights[i] -= kLearningRate * steps[i];
  free(steps);
}

/* Takes over the weights of a model, unless the state is that of a new one. */
static void restore(const network* net, const simurgh_state* state) {
  if (state->name == NULL) return;
  const simurgh_tensor* const tensor = state->tensors;
  if (state->tensor_count != 1 || tensor->dtype != SIMURGH_F32 || tensor->dimensions != 1 ||
      tensor->shape[0] != weight_count(net)) {
    fprintf(stderr, "the model's state is not that of this program\n");
    exit(3);
  }
  memcpy(net->weights, tensor->data, weight_count(net) * sizeof(float));
}

static void save(simurgh_worker* worker, const network* net) {
  const uint64_t count = weight_count(net);
  const simurgh_tensor tensor = {"weights", SIMURGH_F32, 1, &count, net->weights};
  const simurgh_state state = {"logistic regression", "", &tensor, 1};
  if (simurgh_worker_saved(worker, &state) != SIMURGH_OK) fail("save");
}

int main(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s CONFIG [KEY=VALUE...]\n", argv[0]);
    return 2;
  }
  simurgh_worker_options options = {
      sizeof(options), argv[1], (const char* const*)argv + 2, (uint64_t)argc - 2, 0, 0, NULL,
      "warn"};
  simurgh_worker* worker = NULL;
  if (simurgh_worker_open(&options, &worker) != SIMURGH_OK) fail("open");

  simurgh_inputs inputs = {0};
  inputs.size = sizeof(inputs);
  if (simurgh_worker_inputs(worker, &inputs) != SIMURGH_OK) fail("inputs");
  if (inputs.label_count != 1 || strcmp(inputs.losses[0], "bce") != 0) {
    fprintf(stderr, "the example has one label, with the loss bce\n");
    return 2;
  }
  network net = {inputs.dense_width, inputs.embedding_width, NULL};
  net.weights = allocate(weight_count(&net));
  /* Embeddings have gradients only where weights are not zero. */
  for (uint64_t i = 0; i < net.width; ++i) net.weights[i] = i % 2 == 0 ? 0.5F : -0.5F;
  float* const outputs = allocate(inputs.batch_size);
  float* const gradients = allocate(inputs.batch_size * net.width);

  simurgh_state state;
  if (simurgh_worker_start(worker, &state) != SIMURGH_OK) fail("start");
  restore(&net, &state);

  simurgh_task task = {0};
  task.size = sizeof(task);
  do {
    if (simurgh_worker_next(worker, 1000, &task) != SIMURGH_OK) fail("training");
    switch (task.kind) {
      case SIMURGH_TRAIN: {
        predict(&net, &task, outputs);
        train(&net, &task, outputs, gradients);
        const simurgh_step step = {sizeof(step), gradients, outputs, 0};
        if (simurgh_worker_finish(worker, &step) != SIMURGH_OK) fail("finish");
        break;
      }
      case SIMURGH_PREDICT:
        predict(&net, &task, outputs);
        if (simurgh_worker_predicted(worker, outputs, task.rows) != SIMURGH_OK) fail("predict");
        break;
      case SIMURGH_SAVE:
        save(worker, &net);
        break;
      case SIMURGH_RESTORE:
        restore(&net, &task.state);
        if (simurgh_worker_restored(worker) != SIMURGH_OK) fail("restore");
        break;
      default: /* SIMURGH_NONE, SIMURGH_END. */
        break;
    }
    simurgh_memory_release(task.memory);
  } while (task.kind != SIMURGH_END);

  const char* result = NULL;
  if (simurgh_worker_result(worker, &result) != SIMURGH_OK) fail("result");
  fputs(result, stdout);
  if (simurgh_worker_close(worker, NULL) != SIMURGH_OK) fail("close");
  free(gradients);
  free(outputs);
  free(net.weights);
  return 0;
}
