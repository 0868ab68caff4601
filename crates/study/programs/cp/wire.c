#include "wire.h"

#include <string.h>

static const uint32_t MAGIC = 0x76526370; /* "vRcp" */

static void put(unsigned char *to, size_t bytes, uint64_t value)
{
    while (bytes-- > 0) {
        to[bytes] = (unsigned char)value;
        value >>= 8;
    }
}

static uint64_t take(const unsigned char *from, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | from[i];
    return value;
}

static void put_head(unsigned char *to)
{
    put(to, 4, MAGIC);
    put(to + 4, 2, WIRE_VERSION);
}

static int is_head(const unsigned char *from)
{
    return take(from, 4) == MAGIC && take(from + 4, 2) == WIRE_VERSION;
}

void wire_put_message(unsigned char to[WIRE_MESSAGE], const struct message *message)
{
    put_head(to);
    put(to + 6, 2, (uint64_t)message->kind);
    put(to + 8, 8, message->value);
    memset(to + 16, 0, WIRE_TEXT + 1);
    memcpy(to + 16, message->text, strnlen(message->text, WIRE_TEXT));
}

int wire_take_message(const unsigned char *from, size_t bytes, struct message *message)
{
    if (bytes != WIRE_MESSAGE || !is_head(from))
        return -1;
    uint64_t kind = take(from + 6, 2);
    if (kind < OFFER || kind > FAILED)
        return -1;
    message->kind = (enum kind)kind;
    message->value = take(from + 8, 8);
    memcpy(message->text, from + 16, WIRE_TEXT);
    message->text[WIRE_TEXT] = '\0';
    /* Names are checked unchanged; sentences go to a terminal. */
    if (kind == FAILED)
        for (char *c = message->text; *c != '\0'; c++)
            if (*c < ' ' || *c > '~')
                *c = '?';
    return 0;
}

void wire_put_hello(unsigned char to[WIRE_HELLO], const struct ring *ring)
{
    put_head(to);
    put(to + 6, 2, ring->slots);
    put(to + 8, 4, ring->segment);
}

int wire_take_hello(const unsigned char *from, size_t bytes, struct ring *ring)
{
    /* rdma_cm pads private data, so there may be more bytes. */
    if (from == NULL || bytes < WIRE_HELLO || !is_head(from))
        return -1;
    ring->slots = (uint32_t)take(from + 6, 2);
    ring->segment = (uint32_t)take(from + 8, 4);
    int slots_fit = ring->slots >= 1 && ring->slots <= WIRE_MAX_SLOTS;
    int segment_fits = ring->segment >= 1 && ring->segment <= WIRE_MAX_SEGMENT;
    return slots_fit && segment_fits ? 0 : -1;
}

void wire_put_ring(unsigned char to[WIRE_RING], const struct ring *ring)
{
    wire_put_hello(to, ring);
    put(to + 12, 4, ring->rkey);
    put(to + 16, 8, ring->address);
}

int wire_take_ring(const unsigned char *from, size_t bytes, struct ring *ring)
{
    if (bytes < WIRE_RING || wire_take_hello(from, bytes, ring) != 0)
        return -1;
    ring->rkey = (uint32_t)take(from + 12, 4);
    ring->address = take(from + 16, 8);
    return 0;
}

int wire_name_is_safe(const char *name)
{
    if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    for (const char *c = name; *c != '\0'; c++)
        if (*c == '/' || (unsigned char)*c < ' ' || *c == 127)
            return 0;
    return 1;
}
