/* What the compiler offers beyond C99.  Everything that asks for it has a version without it, which
 * MSVC takes; DPFAST_PORTABLE forces that version, so that any compiler can test it. */
#ifndef DPFAST_COMPILER_H
#define DPFAST_COMPILER_H

/* Builtins, vector types, a target for a part of a file. */
#if (defined(__GNUC__) || defined(__clang__)) && !defined(DPFAST_PORTABLE)
#define DPFAST_GNU 1
#else
#define DPFAST_GNU 0
#endif

/* The type of 128 bits and the wide product: of the target, not only of the compiler. */
#if defined(__SIZEOF_INT128__) && DPFAST_GNU
#define DPFAST_INT128 1
#else
#define DPFAST_INT128 0
#endif
#if defined(_MSC_VER) && defined(_M_X64) && !DPFAST_INT128 && !defined(DPFAST_PORTABLE)
#define DPFAST_UMUL128 1
#else
#define DPFAST_UMUL128 0
#endif

#endif
