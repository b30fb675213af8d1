// Preloaded into a process, puts its wall clock forward by 90 seconds. libfaketime does not run
// with jemalloc.
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* time) {
  const long result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && clock == CLOCK_REALTIME) time->tv_sec += 90;
  return (int)result;
}
