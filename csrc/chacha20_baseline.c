/* Bulk ChaCha20 for the compiler's default target: four blocks at a time. */
#include "chacha20.h"

#define KEYSTREAM_NAME dpfast_keystream_baseline
#define LANES 4
#include "chacha20_body.h"
