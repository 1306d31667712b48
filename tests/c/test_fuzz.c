/* Replays the fuzz target without a fuzzer: what one found, and as many random inputs again. */
#include "fuzz_corpus.h"
#include "fuzz_kernels.c"

int main(void)
{
    const size_t found = sizeof FUZZ_CORPUS / sizeof *FUZZ_CORPUS;
    unsigned state = 1u;
    size_t i, j;
    for (i = 0; i < found; i++)
        LLVMFuzzerTestOneInput((const uint8_t *)FUZZ_CORPUS[i].bytes, FUZZ_CORPUS[i].size);
    for (i = 0; i < 640; i++) {
        uint8_t data[160];
        for (j = 0; j < sizeof data; j++) {
            state = state * 1664525u + 1013904223u;
            data[j] = (uint8_t)(state >> 24);
        }
        data[0] = (uint8_t)i; /* every kind of input as often */
        LLVMFuzzerTestOneInput(data, sizeof data);
    }
    printf("%u inputs\n", (unsigned)(found + 640));
    return 0;
}
