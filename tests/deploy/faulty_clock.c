// Preloaded into a process, makes its clocks faulty. libfaketime does not run with jemalloc.
// FAST_CLOCK: puts the wall clock forward by 90 seconds.
// SLOW_PARTITIONS=FILE: while FILE exists, each look at a clock takes a server's partition 30 ms.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int is_partition(void) {
  char name[16] = "";
  prctl(PR_GET_NAME, name);
  return strncmp(name, "partition", 9) == 0;
}

int clock_gettime(clockid_t clock, struct timespec* time) {
  const char* slow = getenv("SLOW_PARTITIONS");
  if (slow != NULL && is_partition() && access(slow, F_OK) == 0) usleep(30 * 1000);
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME && getenv("FAST_CLOCK") != NULL) time->tv_sec += 90;
  return (int)result;
}
