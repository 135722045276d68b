/* Preloaded, it makes a process's time of day wrong by OPDUEL_TEST_CLOCK seconds. Durations stay right. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static time_t off(void) {
    const char *text = getenv("OPDUEL_TEST_CLOCK");
    return text ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += off();
    return code;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec found;
    (void)zone;
    int code = clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return code;
}

time_t time(time_t *place) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (place) *place = found.tv_sec;
    return found.tv_sec;
}
