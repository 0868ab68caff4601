/* CRC-64/XZ (ECMA-182, reflected), eight bytes at a time. Detects errors, but not forgery. */
#ifndef VRDMA_CP_CHECKSUM_H
#define VRDMA_CP_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Continues a checksum: `before` is 0, or the result for the bytes before. */
uint64_t checksum(uint64_t before, const unsigned char *bytes, size_t count);

#endif
