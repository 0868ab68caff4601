/* Waiting for the next completion: by notification or by polling, with a time limit in either case. */
#ifndef VRDMA_CP_WAITING_H
#define VRDMA_CP_WAITING_H

#include <stdint.h>

#include "link.h"

struct waiting {
    struct link *link;
    int64_t deadline_ns;
    uint32_t looks;
    int armed;
};

int64_t now_ns(void);
void waiting_start(struct waiting *waiting, struct link *link);
/* To be called after an empty poll of the CQ. 0: poll again; -1: the peer is gone or silent, which was printed. */
int waiting_step(struct waiting *waiting);
/* Waits for an event of the connection's channel; NULL if there is none within the timeout. */
struct rdma_cm_event *waiting_event(struct rdma_event_channel *channel, int timeout_ms);

#endif
