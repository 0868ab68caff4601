/*
 * The protocol between the two ends of vrdma-cp. All numbers are big-endian.
 *
 *   sender                                      receiver
 *     connect, private data: HELLO ------------->   checks version, segment and slots
 *     <------------- accept, private data: RING     where its slots are
 *     OFFER size, name ------------------------->   checks both, makes a file
 *     <------------------------------------ GRANT
 *     segment n --RDMA WRITE with immediate n--->   slot n % slots
 *     <---------------- CREDIT segments consumed    so many slots are free again
 *     END checksum ----------------------------->   compares, names the file
 *     <----------------------------- DONE checksum
 *
 * Either end may send FAILED with a sentence instead, and then disconnects.
 */
#ifndef VRDMA_CP_WIRE_H
#define VRDMA_CP_WIRE_H

#include <stddef.h>
#include <stdint.h>

enum {
    WIRE_VERSION = 1,
    /* Longest name of a file, and longest sentence. */
    WIRE_TEXT = 255,
    /* magic 4, version 2, kind 2, value 8, text 255 and its end */
    WIRE_MESSAGE = 16 + WIRE_TEXT + 1,
    /* magic 4, version 2, slots 2, segment 4: rdma_cm carries up to 56 bytes in a request */
    WIRE_HELLO = 12,
    /* hello, rkey 4, address 8 */
    WIRE_RING = 24,
    /* A peer can make the receiver allocate at most SLOTS times SEGMENT bytes. */
    WIRE_MAX_SLOTS = 64,
    WIRE_MAX_SEGMENT = 4 << 20,
};

enum kind { OFFER = 1, GRANT, CREDIT, END, DONE, FAILED };

struct message {
    enum kind kind;
    /* OFFER: bytes of the file. CREDIT: segments consumed since the start. END, DONE: checksum. */
    uint64_t value;
    /* OFFER: the name. FAILED: the reason, printable. */
    char text[WIRE_TEXT + 1];
};

/* The receiver's slots; a HELLO has only the first two. */
struct ring {
    uint32_t slots;
    uint32_t segment;
    uint32_t rkey;
    uint64_t address;
};

void wire_put_message(unsigned char to[WIRE_MESSAGE], const struct message *message);
/* 0, or -1 for bytes that are no message. Afterwards the text of FAILED has only printable characters. */
int wire_take_message(const unsigned char *from, size_t bytes, struct message *message);

void wire_put_hello(unsigned char to[WIRE_HELLO], const struct ring *ring);
/* 0, or -1 if the bytes are not of vrdma-cp or the sizes are out of bounds. */
int wire_take_hello(const unsigned char *from, size_t bytes, struct ring *ring);

void wire_put_ring(unsigned char to[WIRE_RING], const struct ring *ring);
int wire_take_ring(const unsigned char *from, size_t bytes, struct ring *ring);

/* A name that stays inside its folder: no '/', no control characters, not empty, "." or "..". */
int wire_name_is_safe(const char *name);

#endif
