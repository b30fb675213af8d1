/* A plug-in that does one thing wrong: BAD says which. */

#include <stdio.h>
#include <string.h>

#include "simurgh/plugin.h"

enum { kAbi = 1, kNoCreate, kNull, kRefuses, kMisbehaves };

static char instance;

static void* Create(const simurgh_setup* setup, simurgh_message* message) {
  (void)setup;
  if (BAD != kRefuses) return &instance;
  snprintf(message->text, message->size, "not on a\nMonday");
  return NULL;
}

/* Does what the cell says. */
static simurgh_verdict Process(void* self, const simurgh_cell* cells, simurgh_output* output,
                               simurgh_message* message) {
  const simurgh_text order = cells[0].values[0];
  (void)self;
  if (memcmp(order.data, "many", order.size) == 0) output->count = output->capacity + 1;
  if (memcmp(order.data, "nan", order.size) == 0) {
    const float zero = 0.0F;
    output->count = 1;
    if (output->weights != NULL) output->weights[0] = zero / zero;
    if (output->dense != NULL) output->dense[0] = zero / zero;
  }
  if (memcmp(order.data, "fail", order.size) == 0) {
    snprintf(message->text, message->size, "its disk is gone");
    return SIMURGH_FAILED;
  }
  return memcmp(order.data, "bad", order.size) == 0 ? SIMURGH_BAD_ROW : SIMURGH_OK;
}

static void Destroy(void* self) { (void)self; }

const simurgh_plugin* simurgh_plugin_entry(void);

const simurgh_plugin* simurgh_plugin_entry(void) {
  static simurgh_plugin plugin = {SIMURGH_PLUGIN_ABI, Create, Process, Destroy};
  if (BAD == kAbi) plugin.abi = SIMURGH_PLUGIN_ABI + 1;
  if (BAD == kNoCreate) plugin.create = NULL;
  return BAD == kNull ? NULL : &plugin;
}
