/* Waiting for the next completion: by notification or by looking again, with an end in either case. */
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
/* After an empty look at the CQ. 0: look again; -1: the peer is gone or silent, which was said. */
int waiting_step(struct waiting *waiting);
/* One event of the connection's channel, if there is one within so many milliseconds; NULL otherwise. */
struct rdma_cm_event *waiting_event(struct rdma_event_channel *channel, int timeout_ms);

#endif
