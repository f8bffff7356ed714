/* Loaded into a member: its wall clock is off by as many seconds as a file says, from one call to the next.
 *
 * Only readings of the wall clock are touched. Waits go by the monotonic clock, here as in the members.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *offset_s;
static int (*read_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    read_clock = dlsym(RTLD_NEXT, "clock_gettime");
    const char *name = getenv("ROLLCALL_CHAOS_CLOCK");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(NULL, sizeof *offset_s, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED) offset_s = shared;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!read_clock) begin();
    int failed = read_clock(clock, now);
    if (!failed && offset_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *offset_s;
    return failed;
}

int gettimeofday(struct timeval *now, void *zone) {
    (void)zone;
    struct timespec read;
    if (clock_gettime(CLOCK_REALTIME, &read)) return -1;
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec read;
    if (clock_gettime(CLOCK_REALTIME, &read)) return -1;
    if (now) *now = read.tv_sec;
    return read.tv_sec;
}
