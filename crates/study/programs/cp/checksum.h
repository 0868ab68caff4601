/* CRC-64/XZ (ECMA-182, reflected), eight bytes at a time. Finds errors; proves nothing against forgery. */
#ifndef VRDMA_CP_CHECKSUM_H
#define VRDMA_CP_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Continues from 0, or from what the bytes before gave. */
uint64_t checksum(uint64_t before, const unsigned char *bytes, size_t count);

#endif
