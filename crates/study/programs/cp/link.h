/*
 * One connection between two ends of vrdma-cp: an RC QP made by rdma_cm, one CQ for both queues, the
 * buffers, and a sequence of events.
 *
 *   wr_id = link_work << 32 | index
 *
 *   messages: [ to send: SENDS ][ received: RECEIVES ]      one region, local
 *   data:     [ slots x segment ]                           one region, remote write at the receiver only
 */
#ifndef VRDMA_CP_LINK_H
#define VRDMA_CP_LINK_H

#include <rdma/rdma_cma.h>

#include "wire.h"

enum {
    /* Each segment takes one receive of its receiver and brings one credit at most; the rest is for
     * messages without a segment. */
    LINK_RECEIVES = WIRE_MAX_SLOTS + 8,
    LINK_SENDS = 2 * WIRE_MAX_SLOTS + 8,
};

struct link_options {
    const char *port;
    uint32_t slots;
    uint32_t segment;
    /* Longest time in which the other side does nothing. */
    int timeout_ms;
    /* Busy waiting instead of notifications. */
    int polls;
};

struct link {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_comp_channel *notices;
    struct ibv_cq *cq;
    struct ibv_mr *message_region;
    struct ibv_mr *data_region;
    unsigned char *messages;
    unsigned char *data;
    struct ring ring;
    const struct link_options *options;
    /* Messages posted to the adapter, and those that it has completed. */
    uint64_t sent, sent_done;
    unsigned unacknowledged;
    int established;
    int gone;
};

/* Upper half of a wr_id. */
enum link_work { LINK_SENT = 1, LINK_WROTE, LINK_RECEIVED };

enum link_what { LINK_MESSAGE, LINK_SEGMENT, LINK_WRITTEN };

struct link_event {
    enum link_what what;
    /* LINK_MESSAGE */
    struct message message;
    /* LINK_SEGMENT: its immediate and length. */
    uint32_t number;
    uint32_t bytes;
};

/* All functions return 0, or -1 after printing the reason. A link that failed or was used must be closed. */

int link_connect(struct link *link, const struct link_options *options, const char *host);

/* A listening identifier on an address of this host; NULL after printing the reason. */
struct rdma_cm_id *link_listen(const struct link_options *options, const char *address);
/* Waits for the next sender without limit. 1: it was refused or failed, call again. */
int link_accept(struct link *link, const struct link_options *options, struct rdma_cm_id *listener);

int link_say(struct link *link, enum kind kind, uint64_t value, const char *text);
/* Writes segment `number` of `bytes` bytes from its slot here to its slot there. */
int link_write(struct link *link, uint64_t number, uint32_t bytes);
unsigned char *link_slot(const struct link *link, uint64_t number);
/* Waits for the next event, within the timeout. Prints a FAILED of the other side and returns -1. */
int link_next(struct link *link, struct link_event *event);

/* Posts the receive of this index again. */
int link_post_receive(struct link *link, uint32_t index);

/* Prints a failure and tells the other side. Returns -1. */
int link_fail(struct link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits at most a second until the other side has the last messages, disconnects, and frees everything. */
void link_close(struct link *link);

#endif
