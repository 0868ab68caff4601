#include "transfer.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "checksum.h"
#include "waiting.h"

struct receiving {
    struct link *link;
    struct sink *sink;
    struct message offer;
    uint64_t bytes;
    /* Segments taken, and those that the sender was told of. */
    uint64_t consumed, credited;
    uint64_t checksum;
};

static int take_offer(struct receiving *receiving, uint64_t limit)
{
    struct link *link = receiving->link;
    struct link_event event;
    if (link_next(link, &event) != 0)
        return -1;
    if (event.what != LINK_MESSAGE || event.message.kind != OFFER)
        return link_fail(link, "the sender does not begin with an offer");
    receiving->offer = event.message;
    if (!wire_name_is_safe(receiving->offer.text))
        return link_fail(link, "the name of the file is refused: it must be one part of a path");
    if (receiving->offer.value > limit)
        return link_fail(link, "%" PRIu64 " bytes are more than the receiver's limit of %" PRIu64,
                         receiving->offer.value, limit);
    if (sink_begin(receiving->sink, receiving->offer.text) != 0)
        return link_fail(link, "the receiver cannot make the file: %s", strerror(errno));
    return link_say(link, GRANT, 0, "");
}

/* Sends credit for freed slots four times a round, not for each slot. */
static int give_credit(struct receiving *receiving)
{
    struct link *link = receiving->link;
    uint64_t step = link->ring.slots / 4 > 0 ? link->ring.slots / 4 : 1;
    int all = receiving->bytes == receiving->offer.value;
    if (receiving->consumed - receiving->credited < step && !all)
        return 0;
    receiving->credited = receiving->consumed;
    return link_say(link, CREDIT, receiving->credited, "");
}

/*
 * The sender can write to its slot until the end of the connection. A sender that does so while the slot
 * is read spoils only its own file, and the checksum detects it.
 */
static int take_segment(struct receiving *receiving, const struct link_event *event)
{
    struct link *link = receiving->link;
    uint64_t rest = receiving->offer.value - receiving->bytes;
    uint64_t expected = rest < link->ring.segment ? rest : link->ring.segment;
    if (expected == 0 || event->bytes != expected)
        return link_fail(link, "a segment of %u bytes came where %" PRIu64 " were to come", event->bytes, expected);
    if (event->number != (uint32_t)receiving->consumed)
        return link_fail(link, "segment %u came out of order", event->number);
    const unsigned char *slot = link_slot(link, receiving->consumed);
    receiving->checksum = checksum(receiving->checksum, slot, event->bytes);
    if (sink_write(receiving->sink, receiving->bytes, slot, event->bytes) != 0)
        return link_fail(link, "the receiver cannot write the file: %s", strerror(errno));
    receiving->bytes += event->bytes;
    receiving->consumed++;
    return give_credit(receiving);
}

static int take_end(struct receiving *receiving, const struct message *end)
{
    struct link *link = receiving->link;
    if (end->kind != END || receiving->bytes != receiving->offer.value)
        return link_fail(link, "the sender does not keep to the protocol");
    if (end->value != receiving->checksum)
        return link_fail(link, "the checksum is wrong: %016" PRIx64 " was sent, %016" PRIx64 " came",
                         end->value, receiving->checksum);
    if (sink_finish(receiving->sink, receiving->offer.text) != 0)
        return link_fail(link, "the receiver cannot name the file: %s", strerror(errno));
    return link_say(link, DONE, receiving->checksum, "");
}

static int receive(struct receiving *receiving, uint64_t limit)
{
    if (take_offer(receiving, limit) != 0)
        return -1;
    for (;;) {
        struct link_event event;
        if (link_next(receiving->link, &event) != 0)
            return -1;
        if (event.what == LINK_MESSAGE)
            return take_end(receiving, &event.message);
        if (take_segment(receiving, &event) != 0)
            return -1;
    }
}

int transfer_receive(struct link *link, struct sink *sink, uint64_t limit, struct result *result)
{
    struct receiving receiving = {.link = link, .sink = sink};
    int64_t start = now_ns();
    int outcome = receive(&receiving, limit);
    sink_abandon(sink);
    *result = (struct result){
        .bytes = receiving.bytes,
        .checksum = receiving.checksum,
        .seconds = (double)(now_ns() - start) / 1e9,
    };
    return outcome;
}
