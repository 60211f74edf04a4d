/* What every client here needs: a clock, its own CPU time, and an end with a reason:
 * `fail` for what went wrong here, `fail_call` for a system call that has set errno. */
#ifndef COMMON_H
#define COMMON_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static inline double cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static inline void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static inline void fail_call(const char *call) {
    perror(call);
    exit(1);
}

#endif
