/* Random bits: a part of the kernel texts of draws and of dropout, which include it. */
#ifndef HAUL_OPS_RANDOM_PHILOX_KERNEL_H
#define HAUL_OPS_RANDOM_PHILOX_KERNEL_H

// clang-format off
#ifdef HAUL_KERNEL
/* Philox 4x32-10 (Salmon et al. 2011): four words of random bits for each 64-bit counter, here of PHILOX_BLOCKS counters
 * from `counter` on, so that vector units are used. Word j of block b is words[4 b + j]. */
enum { PHILOX_BLOCKS = CHUNKED ? 32 : 1 };
FUNC void philox(U64 seed, U64 counter, U32 *words)
{
    U32 c0[PHILOX_BLOCKS], c1[PHILOX_BLOCKS], c2[PHILOX_BLOCKS], c3[PHILOX_BLOCKS];
    U32 k0 = (U32)seed, k1 = (U32)(seed >> 32);
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        const U64 c = counter + (U64)b;
        c0[b] = (U32)c;
        c1[b] = (U32)(c >> 32);
        c2[b] = 0;
        c3[b] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int b = 0; b < PHILOX_BLOCKS; b++) {
            const U32 high0 = MULHI32(0xD2511F53u, c0[b]), low0 = 0xD2511F53u * c0[b];
            const U32 high1 = MULHI32(0xCD9E8D57u, c2[b]), low1 = 0xCD9E8D57u * c2[b];
            c0[b] = high1 ^ c1[b] ^ k0;
            c1[b] = low1;
            c2[b] = high0 ^ c3[b] ^ k1;
            c3[b] = low0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        words[4 * b] = c0[b];
        words[4 * b + 1] = c1[b];
        words[4 * b + 2] = c2[b];
        words[4 * b + 3] = c3[b];
    }
}
#endif
// clang-format on

#endif
