#include "transfer.h"

#include "checksum.h"
#include "say.h"
#include "waiting.h"

struct sending {
    struct link *link;
    const struct source *source;
    uint64_t segments;
    /* Segments that were posted, that the adapter has written, and that the receiver has consumed. */
    uint64_t posted, written, consumed;
    uint64_t checksum;
};

static int expect_message(struct link *link, enum kind kind, struct link_event *event)
{
    do
        if (link_next(link, event) != 0)
            return -1;
    while (event->what == LINK_WRITTEN);
    if (event->what != LINK_MESSAGE || event->message.kind != kind)
        return link_fail(link, "the receiver does not keep to the protocol");
    return 0;
}

static uint32_t segment_bytes(const struct sending *sending, uint64_t number)
{
    uint64_t segment = sending->link->ring.segment;
    uint64_t rest = sending->source->size - number * segment;
    return (uint32_t)(rest < segment ? rest : segment);
}

/* Whether a slot is free: the receiver has consumed it and the adapter no longer reads it. */
static int slot_is_free(const struct sending *sending)
{
    uint64_t slots = sending->link->ring.slots;
    return sending->posted - sending->consumed < slots && sending->posted - sending->written < slots;
}

static int post_segment(struct sending *sending)
{
    uint64_t number = sending->posted;
    uint32_t bytes = segment_bytes(sending, number);
    unsigned char *slot = link_slot(sending->link, number);
    uint64_t offset = number * sending->link->ring.segment;
    if (source_read(sending->source, offset, slot, bytes) != 0)
        return link_fail(sending->link, "the sender cannot read its file");
    sending->checksum = checksum(sending->checksum, slot, bytes);
    sending->posted++;
    return link_write(sending->link, number, bytes);
}

static int take_event(struct sending *sending)
{
    struct link_event event = {.what = LINK_MESSAGE};
    if (link_next(sending->link, &event) != 0)
        return -1;
    if (event.what == LINK_WRITTEN) {
        sending->written++;
        return 0;
    }
    int is_credit = event.what == LINK_MESSAGE && event.message.kind == CREDIT;
    uint64_t consumed = event.message.value;
    if (!is_credit || consumed <= sending->consumed || consumed > sending->posted)
        return link_fail(sending->link, "the receiver does not keep to the protocol");
    sending->consumed = consumed;
    return 0;
}

static int send_segments(struct sending *sending)
{
    while (sending->consumed < sending->segments) {
        int free = sending->posted < sending->segments && slot_is_free(sending);
        if ((free ? post_segment(sending) : take_event(sending)) != 0)
            return -1;
    }
    return 0;
}

int transfer_send(struct link *link, const struct source *source, struct result *result)
{
    struct sending sending = {.link = link, .source = source};
    struct link_event event;
    sending.segments = source->size / link->ring.segment + (source->size % link->ring.segment != 0);
    int64_t start = now_ns();
    if (link_say(link, OFFER, source->size, source->name) != 0 ||
        expect_message(link, GRANT, &event) != 0 || send_segments(&sending) != 0)
        return -1;
    if (link_say(link, END, sending.checksum, "") != 0 || expect_message(link, DONE, &event) != 0)
        return -1;
    if (event.message.value != sending.checksum)
        return link_fail(link, "the receiver has another checksum");
    *result = (struct result){
        .bytes = source->size,
        .checksum = sending.checksum,
        .seconds = (double)(now_ns() - start) / 1e9,
    };
    return 0;
}
