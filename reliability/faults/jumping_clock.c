/* Wall clocks that jump while a process runs: preloaded, it adds an offset to CLOCK_REALTIME.

   The file named by PENSTOCK_CHAOS_CLOCK holds two 64-bit numbers: the offset in nanoseconds,
   which may change at any time, and how often a process was told a time with it. Monotonic clocks
   stay as they are, as they do on a real machine whose wall clock is set. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BILLION 1000000000LL

static volatile int64_t *plan;
static int (*real_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("PENSTOCK_CHAOS_CLOCK");
    int handle = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    if (handle < 0)
        return;
    void *found = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    close(handle);
    if (found != MAP_FAILED)
        plan = found;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    if (!real_clock)
        begin();
    int result = real_clock(clock, at);
    int64_t offset = plan ? plan[0] : 0;
    if (result || !offset || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
        return result;
    int64_t sum = at->tv_sec * BILLION + at->tv_nsec + offset;
    at->tv_sec = sum / BILLION;
    at->tv_nsec = sum % BILLION;
    plan[1]++;
    return 0;
}

int gettimeofday(struct timeval *at, void *zone)
{
    struct timespec now;
    int result = clock_gettime(CLOCK_REALTIME, &now);
    (void)zone;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return result;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
