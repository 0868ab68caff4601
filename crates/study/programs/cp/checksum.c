#include "checksum.h"

static const uint64_t POLYNOMIAL = 0xc96c5795d7870f42;

/* table[k][b]: the effect of byte b with k bytes after it. */
static uint64_t table[8][256];

static void fill_table(void)
{
    for (unsigned b = 0; b < 256; b++) {
        uint64_t rest = b;
        for (int bit = 0; bit < 8; bit++)
            rest = rest >> 1 ^ (rest & 1 ? POLYNOMIAL : 0);
        table[0][b] = rest;
    }
    for (int k = 1; k < 8; k++)
        for (unsigned b = 0; b < 256; b++)
            table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
}

uint64_t checksum(uint64_t before, const unsigned char *bytes, size_t count)
{
    if (table[0][1] == 0)
        fill_table();
    uint64_t rest = ~before;
    for (; count >= 8; bytes += 8, count -= 8) {
        uint64_t next = 0;
        for (int k = 0; k < 8; k++)
            next ^= table[7 - k][(rest >> 8 * k & 255) ^ bytes[k]];
        rest = next;
    }
    for (; count > 0; bytes++, count--)
        rest = rest >> 8 ^ table[0][(rest & 255) ^ *bytes];
    return ~rest;
}
