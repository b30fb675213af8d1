/* Prints rows of a model by id: a line for each, with 0 or 1 for found, then the weights.
 *
 * Usage: rows MODEL PLACE PRECISION FEATURE ID...
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simurgh/simurgh.h"

static void check(int code, const char* what) {
  if (code == SIMURGH_OK) return;
  fprintf(stderr, "%s: %s\n", what, simurgh_last_error());
  exit(code);
}

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  const char* const settings[] = {"serving.request_timeout=5s"};
  simurgh_model_options options = {0};
  options.size = sizeof(options);
  options.path = argv[1];
  options.overrides = settings;
  options.override_count = 1;
  options.log_level = "error";
  options.rows = argv[2];
  options.row_precision = argv[3];
  simurgh_model* model = NULL;
  check(simurgh_model_open(&options, &model), "open");
  simurgh_inputs inputs = {0};
  inputs.size = sizeof(inputs);
  check(simurgh_model_inputs(model, &inputs), "inputs");
  uint64_t dim = 0;
  for (uint64_t i = 0; i < inputs.feature_count; ++i) {
    if (strcmp(inputs.features[i].name, argv[4]) == 0) dim = inputs.features[i].dim;
  }
  const uint64_t count = (uint64_t)argc - 5;
  uint64_t* const ids = calloc(count, sizeof(uint64_t));
  float* const weights = calloc(count * dim + 1, sizeof(float));
  uint8_t* const found = calloc(count, 1);
  if (ids == NULL || weights == NULL || found == NULL) return 3;
  for (uint64_t i = 0; i < count; ++i) ids[i] = strtoull(argv[5 + i], NULL, 10);
  check(simurgh_model_rows(model, argv[4], ids, count, weights, found), "rows");
  for (uint64_t i = 0; i < count; ++i) {
    printf("%d", found[i]);
    for (uint64_t d = 0; d < dim; ++d) printf(" %.9g", (double)weights[i * dim + d]);
    printf("\n");
  }
  free(ids);
  free(weights);
  free(found);
  check(simurgh_model_close(model), "close");
  return 0;
}
