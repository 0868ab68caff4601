/* One file over one link. */
#ifndef VRDMA_CP_TRANSFER_H
#define VRDMA_CP_TRANSFER_H

#include "file.h"
#include "link.h"

struct result {
    uint64_t bytes;
    uint64_t checksum;
    /* From the offer to the message that all has arrived. */
    double seconds;
};

/* 0, or -1 after printing the reason. */
int transfer_send(struct link *link, const struct source *source, struct result *result);
/* Files of more than `limit` bytes are refused. */
int transfer_receive(struct link *link, struct sink *sink, uint64_t limit, struct result *result);

#endif
