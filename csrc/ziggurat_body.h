/* Words to normal numbers, stamped once per instruction set by ziggurat_<isa>.c.  Every instruction
 * set gives the same numbers: each product is rounded as in ziggurat_point. */
#include "simd.h"
#include "ziggurat_point.h"

#if VECTOR_AVX512
/* zig_x of two layers, each followed by that of the layer above. */
#define TWO_WIDTHS(a, b)                                                                           \
    _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(zig_x + ((a) & 255))),                \
                         _mm_loadu_pd(zig_x + ((b) & 255)), 1)
#define FOUR_WIDTHS(a, b, c, d)                                                                    \
    _mm512_insertf64x4(_mm512_castpd256_pd512(TWO_WIDTHS(a, b)), TWO_WIDTHS(c, d), 1)
#endif

ptrdiff_t DPFAST_ISA(dpfast_ziggurat)(ptrdiff_t n, const uint64_t *word, double *out)
{
    ptrdiff_t i = 0;
#if VECTOR_AVX512
    for (; i < n; i += 8) {
        const unsigned count = n - i < 8 ? (unsigned)(n - i) : 8;
        const __mmask8 some = (__mmask8)((1u << count) - 1u);
        const __m512i bits = _mm512_maskz_loadu_epi64(some, word + i);
        const __m512i sign = _mm512_slli_epi64(_mm512_srli_epi64(bits, 8), 63);
        const __m512d part =
            _mm512_mul_pd(_mm512_cvtepi64_pd(_mm512_srli_epi64(bits, 11)), _mm512_set1_pd(0x1p-53));
        /* Loads: gather instructions are slow where they are mended against leaks. */
        uint64_t w[8];
        __m512d even, odd, x;
        unsigned outside;
        _mm512_storeu_si512(w, bits);
        even = FOUR_WIDTHS(w[0], w[2], w[4], w[6]);
        odd = FOUR_WIDTHS(w[1], w[3], w[5], w[7]);
        x = _mm512_mul_pd(part, _mm512_unpacklo_pd(even, odd));
        outside = some & ~(unsigned)_mm512_cmp_pd_mask(x, _mm512_unpackhi_pd(even, odd), _CMP_LT_OQ);
        _mm512_mask_storeu_pd(out + i, some, _mm512_xor_pd(x, _mm512_castsi512_pd(sign)));
        if (outside != 0) {
            return i + __builtin_ctz(outside);
        }
    }
    return n;
#else
    for (; i < n; i++) {
        const unsigned layer = ziggurat_layer(word[i]);
        const double x = ziggurat_point(word[i], layer);
        if (!(x < zig_x[layer + 1])) {
            break;
        }
        out[i] = ziggurat_sign(word[i]) * x;
    }
    return i;
#endif
}
