/* Loaded into a member: while a file says so, no change of a file in one folder succeeds, but fails with that errno.
 *
 * Open descriptors fail too, as on a file system that the kernel made read-only after an error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile int32_t *fault;
static const char *folder;

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("ROLLCALL_TEST_DISK");
    folder = getenv("ROLLCALL_TEST_FOLDER");
    int file = name && folder ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(NULL, sizeof *fault, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED) fault = shared;
}

static int fails_for(const char *path) {
    if (!fault || !*fault || strncmp(path, folder, strlen(folder))) return 0;
    errno = *fault;
    return 1;
}

static int fails(int descriptor) {
    char link[40], path[4096];
    if (!fault || !*fault) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < 0) return 0;
    path[size] = 0;
    return fails_for(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int descriptor, const void *data, size_t size) {
    return fails(descriptor) ? -1 : REAL(write)(descriptor, data, size);
}

ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at) {
    return fails(descriptor) ? -1 : REAL(pwrite)(descriptor, data, size, at);
}

ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at) {
    return fails(descriptor) ? -1 : REAL(pwrite64)(descriptor, data, size, at);
}

int ftruncate(int descriptor, off_t size) { return fails(descriptor) ? -1 : REAL(ftruncate)(descriptor, size); }
int ftruncate64(int descriptor, off64_t size) { return fails(descriptor) ? -1 : REAL(ftruncate64)(descriptor, size); }
int fsync(int descriptor) { return fails(descriptor) ? -1 : REAL(fsync)(descriptor); }
int fdatasync(int descriptor) { return fails(descriptor) ? -1 : REAL(fdatasync)(descriptor); }
int unlink(const char *path) { return fails_for(path) ? -1 : REAL(unlink)(path); }

static int mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, int) : 0; }

int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = mode_of(flags, rest);
    va_end(rest);
    return flags & (O_WRONLY | O_RDWR) && fails_for(path) ? -1 : REAL(open)(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = mode_of(flags, rest);
    va_end(rest);
    return flags & (O_WRONLY | O_RDWR) && fails_for(path) ? -1 : REAL(open64)(path, flags, mode);
}
