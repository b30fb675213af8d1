/* An example of a plug-in: soft bins of a number.
 *
 * Its parameters are the anchors, ascending numbers. A value between two anchors belongs to both,
 * in shares by distance: 30 has shares of one half in 20 and 40. A value below the first or above
 * the last anchor belongs to that anchor alone. Unlike with `boundaries`, neighbouring values share
 * what the model learns.
 *
 * As a feature: ids are the indexes of the anchors, weights are the shares. As a derived column:
 * `width` is the number of anchors, values are the shares.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simurgh/plugin.h"

enum { kMaxNumberBytes = 64 };

typedef struct {
  double* anchors;
  size_t count;
  int is_dense;
} SoftBins;

/* Returns 0 if the text is not a finite number. */
static int ParseNumber(simurgh_text text, double* value) {
  char buffer[kMaxNumberBytes];
  char* end = NULL;
  if (text.size == 0 || text.size >= sizeof(buffer)) return 0;
  memcpy(buffer, text.data, text.size);
  buffer[text.size] = '\0';
  *value = strtod(buffer, &end);
  /* NaN and infinity times 0 are not 0. */
  return end == buffer + text.size && *value * 0.0 == 0.0;
}

static void Destroy(void* instance) {
  SoftBins* bins = instance;
  free(bins->anchors);
  free(bins);
}

static int ReadAnchors(SoftBins* bins, const simurgh_setup* setup, simurgh_message* message) {
  size_t i;
  for (i = 0; i < setup->parameter_count; ++i) {
    const simurgh_text text = setup->parameters[i];
    if (!ParseNumber(text, &bins->anchors[i])) {
      snprintf(message->text, message->size, "parameter '%.*s' is not a number", (int)text.size,
               text.data);
      return 0;
    }
    if (i > 0 && !(bins->anchors[i] > bins->anchors[i - 1])) {
      snprintf(message->text, message->size,
               "anchor %.*s is not above the previous one; give them in ascending order",
               (int)text.size, text.data);
      return 0;
    }
  }
  bins->count = setup->parameter_count;
  return 1;
}

static void* Create(const simurgh_setup* setup, simurgh_message* message) {
  SoftBins* bins;
  if (setup->parameter_count == 0 || setup->column_count != 1) {
    snprintf(message->text, message->size, "soft bins take one column, and anchors as parameters");
    return NULL;
  }
  if (setup->dense_width != 0 && setup->dense_width != setup->parameter_count) {
    snprintf(message->text, message->size, "give width: %zu, one for each anchor",
             setup->parameter_count);
    return NULL;
  }
  bins = calloc(1, sizeof(*bins));
  if (bins != NULL) bins->anchors = calloc(setup->parameter_count, sizeof(double));
  if (bins == NULL || bins->anchors == NULL) {
    free(bins);
    snprintf(message->text, message->size, "out of memory");
    return NULL;
  }
  bins->is_dense = setup->dense_width != 0;
  if (ReadAnchors(bins, setup, message)) return bins;
  Destroy(bins);
  return NULL;
}

static void Add(const SoftBins* bins, size_t anchor, double share, simurgh_output* output) {
  if (share <= 0.0) return;
  if (bins->is_dense) {
    output->dense[anchor] += (float)share;
    return;
  }
  /* Also counts ids beyond the capacity, which the reader reports. */
  if (output->count < output->capacity) {
    output->ids[output->count] = anchor;
    output->weights[output->count] = (float)share;
  }
  ++output->count;
}

static simurgh_verdict Process(void* instance, const simurgh_cell* cells, simurgh_output* output,
                               simurgh_message* message) {
  const SoftBins* bins = instance;
  size_t i;
  for (i = 0; i < cells[0].count; ++i) {
    const simurgh_text text = cells[0].values[i];
    size_t above = 0;
    double value = 0.0;
    double share = 0.0;
    if (!ParseNumber(text, &value)) {
      snprintf(message->text, message->size, "'%.*s' is not a number", (int)text.size, text.data);
      return SIMURGH_BAD_ROW;
    }
    while (above < bins->count && bins->anchors[above] <= value) ++above;
    if (above == 0 || above == bins->count) {
      Add(bins, above == 0 ? 0 : above - 1, 1.0, output);
      continue;
    }
    share = (value - bins->anchors[above - 1]) / (bins->anchors[above] - bins->anchors[above - 1]);
    Add(bins, above - 1, 1.0 - share, output);
    Add(bins, above, share, output);
  }
  return SIMURGH_OK;
}

const simurgh_plugin* simurgh_plugin_entry(void);

const simurgh_plugin* simurgh_plugin_entry(void) {
  static const simurgh_plugin plugin = {SIMURGH_PLUGIN_ABI, Create, Process, Destroy};
  return &plugin;
}
