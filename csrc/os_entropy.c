/* Random bytes from the operating system: getrandom(2) or /dev/urandom on Linux, getentropy on
 * macOS and the BSDs, BCryptGenRandom on Windows. */
#if !defined(_WIN32)
#define _DEFAULT_SOURCE 1 /* syscall(), getentropy() under -std=c99 */
#define _DARWIN_C_SOURCE 1
#define _NETBSD_SOURCE 1
#endif

#include "random.h"

#if defined(_WIN32)

#include <windows.h>
/* after windows.h */
#include <bcrypt.h>

dpfast_status dpfast_os_entropy(void *out, size_t n)
{
    unsigned char *at = (unsigned char *)out;
    while (n > 0) {
        ULONG part = n > 65536 ? 65536 : (ULONG)n;
        if (BCryptGenRandom(NULL, at, part, BCRYPT_USE_SYSTEM_PREFERRED_RNG) < 0) {
            return DPFAST_ERR_ENTROPY;
        }
        at += part;
        n -= part;
    }
    return DPFAST_OK;
}

#elif defined(__APPLE__) || defined(__OpenBSD__) || defined(__FreeBSD__) || defined(__NetBSD__)

#include <unistd.h>
#if defined(__APPLE__)
#include <sys/random.h>
#endif

dpfast_status dpfast_os_entropy(void *out, size_t n)
{
    unsigned char *at = (unsigned char *)out;
    while (n > 0) {
        size_t part = n > 256 ? 256 : n; /* the most that getentropy gives at once */
        if (getentropy(at, part) != 0) {
            return DPFAST_ERR_ENTROPY;
        }
        at += part;
        n -= part;
    }
    return DPFAST_OK;
}

#else

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

static dpfast_status read_device(unsigned char *at, size_t n)
{
    int flags = O_RDONLY;
    int file;
#if defined(O_CLOEXEC)
    flags |= O_CLOEXEC;
#endif
    do {
        file = open("/dev/urandom", flags);
    } while (file < 0 && errno == EINTR);
    if (file < 0) {
        return DPFAST_ERR_ENTROPY;
    }
    while (n > 0) {
        ssize_t got = read(file, at, n);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        at += got;
        n -= (size_t)got;
    }
    close(file);
    return n == 0 ? DPFAST_OK : DPFAST_ERR_ENTROPY;
}

dpfast_status dpfast_os_entropy(void *out, size_t n)
{
    unsigned char *at = (unsigned char *)out;
#if defined(SYS_getrandom)
    /* The system call, not the C library's wrapper, which libraries older than 2017 lack. */
    while (n > 0) {
        long got = syscall(SYS_getrandom, at, n, 0);
        if (got < 0) {
            if (errno == EINTR) {
                continue;
            }
            break; /* a kernel or a sandbox without the call: the device remains */
        }
        at += got;
        n -= (size_t)got;
    }
#endif
    return n == 0 ? DPFAST_OK : read_device(at, n);
}

#endif
