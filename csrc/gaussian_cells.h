/* Where a uniform real falls, to decide the cell of a discrete Gaussian: the binary digits of
 *
 *     C_k = (sum of exp(-j^2 / 2) for 0 <= j <= k) / (sum of exp(-j^2 / 2) for all j >= 0),
 *
 * k = 0, ..., 7: the first 63 digits, then 15 words of 64.  tests/test_samplers.py computes them
 * anew. */
#ifndef DPFAST_GAUSSIAN_CELLS_H
#define DPFAST_GAUSSIAN_CELLS_H

#include <stdint.h>

enum { CELLS = 8, CELL_WORDS = 15 };

static const uint64_t cell_bound[CELLS] = {
    0x49012d8ca4167395u, 0x7548bcc2a3d077c9u, 0x7f2a0ae374ed25d7u, 0x7ff9a9198cc84608u,
    0x7fffee18dc77aca1u, 0x7fffffed516b91a2u, 0x7ffffffff8d106d2u, 0x7ffffffffffefbb6u,
};

static const uint64_t cell_digits[CELLS][CELL_WORDS] = {
    {
        0xea0120ff1ec281f0u, 0x5486c58b1d3809d0u, 0x083da39429f20b32u, 0x91222c0ae6e57ee0u,
        0x38e347adacd491d6u, 0x1bca9042e0940b77u, 0xf48f9572e78b6538u, 0x86243edd291a1905u,
        0x5e663066896ac714u, 0xc9738fcdb5ebf253u, 0x8503b1098f1ec001u, 0xa7669a0f261f8714u,
        0x67847ba69a658bd1u, 0x9e1472a39be09dc6u, 0x1d1ce4bd2d6f3fc5u,
    },
    {
        0xeaaea7fcd5c210a4u, 0xfb41d2031bc10cd6u, 0xaa2a70c4ba4130ecu, 0x1f77741983882d5fu,
        0xd666c14687dc77abu, 0x10800d40d7e622cdu, 0xd3e9e24a7a42edeau, 0xcae909a2bba3810au,
        0x6433974d93da4f0eu, 0x59c3251f72abd95du, 0xfd4ecf878ed8114bu, 0x86cce5a7539b52b5u,
        0x68df2eb87dc65dd2u, 0x4cdbf207654e8c87u, 0xe6b8ccd85635a93fu,
    },
    {
        0x755d59ce2b6a0cdfu, 0x1c701c8acc609136u, 0x7c82ef1f851b684eu, 0x8642c6b0ee80764cu,
        0x557564039f61b3dfu, 0xc05f7eb519e6ff3cu, 0xc2f1a9bc886f2b59u, 0xbd68aac7ee29ac84u,
        0x34357759f07754a7u, 0xc9f321161dd7f6d8u, 0xba8d5d43a8e523a7u, 0x697745e0bbea3e8au,
        0xac0ac84a0a7bff4eu, 0xc062588d300af554u, 0xecadb7c530765760u,
    },
    {
        0xec9bde81c93e1784u, 0xaa93bc351e7725f7u, 0xb1898f2039dcb61fu, 0xa90c6e1d07cbfba2u,
        0xa6ee9a2142c24b0cu, 0x8bed05271a1974cau, 0x1a392820ebca0e84u, 0x04da64a87873e98bu,
        0x116cb913ea78881du, 0xd914505e3eac52ebu, 0xeb84de0504e68edcu, 0x756847ff13e3f228u,
        0xbb8f2cdbea7c3f8au, 0x3ab794f19a74e055u, 0xe1ad6392b321097eu,
    },
    {
        0x244621fa10cd2474u, 0x6cf1266891982c87u, 0x27518bd5e57c31c0u, 0xaf08319873457583u,
        0x48b8cdd93a8278b4u, 0xfa8b063cf52798edu, 0x231f3001e10d33b3u, 0x4fa716a389b92f91u,
        0xb400eaca43c47a21u, 0xc18cdde2c3496a34u, 0xaa82b7425aa579e9u, 0x56a8384d841b12e2u,
        0x1332072077143c2bu, 0x9deea1157662583cu, 0xc127bc00067b11cbu,
    },
    {
        0x7836aba792f13751u, 0x761bd155d33c66e9u, 0x9cd5502822229ff7u, 0x056a20772d78c77cu,
        0x2a817ec2f9a26b56u, 0x8127cd566115d690u, 0xf645f5f2d5e189dfu, 0x29695f3777a18903u,
        0x46a49eae0a52d8feu, 0x3562807e69a03bf3u, 0x0733f61015d8f0ccu, 0xc84f9e31c0d0d410u,
        0xdb29fff707c3bcfeu, 0x1c244b7c1d7e4c2cu, 0x424e6fe1a4875340u,
    },
    {
        0x13971c923cd871ebu, 0x3e975fc7d01025b3u, 0x01647bc86c912932u, 0xe4f57abce591ef84u,
        0xa66ff6391a2b1c31u, 0x307a5dd2cf41e8c4u, 0x9dad3b1d19979f90u, 0x7f475465b423d915u,
        0x0f9ebf6c2bd1cff2u, 0x0a8eaaff81406a84u, 0x2ca057591b8a51deu, 0x7329acbd7dc3208bu,
        0xbb1eac6ad395af4cu, 0x725f4ce47e859316u, 0x7dd80c9b3e75f710u,
    },
    {
        0x2564eb778cb33a39u, 0xe8c77531520e6743u, 0xfecba6f4b834bd99u, 0xc693e76129690248u,
        0xc831942974d1ff80u, 0x7377fd5d04ab83ecu, 0x1ca070868caeb8deu, 0x0dddcd66e9c519f7u,
        0xa06ed1d8f278ff23u, 0xc3015b631b1474dau, 0x74a8488ae0c097e8u, 0xaf089e458e8957b4u,
        0x126d471da0c489edu, 0xff3ef55545b53ad7u, 0x498d5736d8512327u,
    },
};

#endif
