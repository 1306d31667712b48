/* Bulk ChaCha20 keystream, once per instruction set; private to the stream. */
#ifndef DPFAST_CHACHA20_H
#define DPFAST_CHACHA20_H

#include <stdint.h>

#include "dispatch.h"
#include "random.h"

/* out = the keystream of blocks 0 to 15 under `key` and a nonce of zeros, read as 64-bit
 * little-endian words; the same numbers on every machine. */
typedef void dpfast_keystream_fn(const uint32_t key[8], uint64_t out[DPFAST_STREAM_WORDS]);

#define DECLARE_KEYSTREAM(isa) dpfast_keystream_fn dpfast_keystream_##isa;
DPFAST_FOR_EACH_ISA(DECLARE_KEYSTREAM)
#undef DECLARE_KEYSTREAM

#endif
