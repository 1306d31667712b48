/* The operating system's bytes, whatever its calls answer. */
#include "any.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What Linux documents of these calls: as many bytes as they like, or an error. */

static ssize_t some_bytes(void *at, size_t n)
{
    const int got = Frama_C_interval_split(-1, (int)n);
    if (got < 0) {
        errno = any_int(1, 200);
    } else if (got > 0) {
        Frama_C_make_unknown(at, (size_t)got);
    }
    return got;
}

long syscall(long number, ...)
{
    __builtin_va_list arguments;
    void *at;
    size_t n;
    __builtin_va_start(arguments, number);
    at = __builtin_va_arg(arguments, void *);
    n = __builtin_va_arg(arguments, size_t);
    __builtin_va_end(arguments);
    return some_bytes(at, n);
}

ssize_t read(int file, void *at, size_t n)
{
    return some_bytes(at, n);
}

int open(const char *name, int flags, ...)
{
    return any_int(-1, 1000);
}

int close(int file)
{
    return any_int(-1, 0);
}

int main(void)
{
    unsigned char key[DPFAST_KEY_BYTES];
    dpfast_os_entropy(key, 0);
    dpfast_os_entropy(key, sizeof key);
    return 0;
}
