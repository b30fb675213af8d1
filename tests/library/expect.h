/* Expectations of calls of the C interface. For one source of a program. */
#ifndef SIMURGH_TESTS_LIBRARY_EXPECT_H_
#define SIMURGH_TESTS_LIBRARY_EXPECT_H_

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "simurgh/simurgh.h"

static int failures = 0;

/* Expects a code, and an error that contains each of the texts up to NULL. */
static void expect(int line, int code, int expected, ...) {
  const char* const error = simurgh_last_error();
  int holds = code == expected;
  va_list texts;
  va_start(texts, expected);
  for (const char* text = va_arg(texts, const char*); text != NULL;
       text = va_arg(texts, const char*)) {
    holds = holds && strstr(error, text) != NULL;
  }
  va_end(texts);
  if (holds) return;
  fprintf(stderr, "line %d: code %d, expected %d: %s\n", line, code, expected, error);
  ++failures;
}
#define OK(call) expect(__LINE__, (call), SIMURGH_OK, (char*)NULL)
#define INVALID(call, ...) expect(__LINE__, (call), SIMURGH_INVALID, __VA_ARGS__, (char*)NULL)
#define FAILED(call, ...) expect(__LINE__, (call), SIMURGH_FAILED, __VA_ARGS__, (char*)NULL)
#define CHECK(holds) expect(__LINE__, (holds) ? 0 : 1, 0, (char*)NULL)

#endif
