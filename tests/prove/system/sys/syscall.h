/* What os_entropy.c needs of this header, which the analyzer's C library does not have.  What the
 * system call does to its buffer is written down in eva_random.c. */
#ifndef SYS_SYSCALL_H
#define SYS_SYSCALL_H

#define SYS_getrandom 318

long syscall(long number, ...);

#endif
