/*
 * An end of vrdma-cp that misbehaves, and reports how the other end reacts.
 *
 *   rude HOST MANNER        as a sender
 *   rude --receive MANNER   as a receiver, for one sender
 *
 * Prints the messages of the other end, which vrdma-cp prints for its user too. Exit status 1 when the other
 * end closed the connection or sent FAILED, 0 when it accepted the manner, 2 without a connection.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../link.h"
#include "../say.h"
#include "../waiting.h"

static const struct link_options OPTIONS = {.port = "18601", .slots = 4, .segment = 65536, .timeout_ms = 10000};

struct manner {
    const char *name;
    int (*act)(struct link *link);
};

static int hear(struct link *link, enum kind kind)
{
    struct link_event event;
    do
        if (link_next(link, &event) != 0)
            return 1;
    while (event.what != LINK_MESSAGE || event.message.kind != kind);
    return 0;
}

/* Makes an offer and waits for its grant. */
static int offer(struct link *link, uint64_t size, const char *name)
{
    return link_say(link, OFFER, size, name) != 0 || hear(link, GRANT);
}

static int climbs(struct link *link)
{
    return offer(link, 1, "../climbs");
}

static int nameless(struct link *link)
{
    return offer(link, 1, "");
}

static int huge(struct link *link)
{
    return offer(link, UINT64_MAX, "huge");
}

static int talks_first(struct link *link)
{
    return link_say(link, END, 0, "") != 0 || hear(link, DONE);
}

static int ends_early(struct link *link)
{
    return offer(link, 100, "early") || link_say(link, END, 0, "") != 0 || hear(link, DONE);
}

static int disorder(struct link *link)
{
    return offer(link, 200000, "disorder") || link_write(link, 1, 65536) != 0 || hear(link, DONE);
}

static int long_segment(struct link *link)
{
    return offer(link, 200000, "long") || link_write(link, 0, 65537) != 0 || hear(link, DONE);
}

static int too_much(struct link *link)
{
    return offer(link, 65536, "too-much") || link_write(link, 0, 65536) != 0 || link_write(link, 1, 65536) != 0 ||
           hear(link, DONE);
}

static int wrong_sum(struct link *link)
{
    return offer(link, 65536, "wrong-sum") || link_write(link, 0, 65536) != 0 || link_say(link, END, 1, "") != 0 ||
           hear(link, DONE);
}

/* Writes behind the last slot: the adapter refuses it by the key's bounds. */
static int outside(struct link *link)
{
    link->ring.address += (uint64_t)link->ring.slots * link->ring.segment;
    return offer(link, 65536, "outside") || link_write(link, 0, 65536) != 0 || hear(link, DONE);
}

static int flood(struct link *link)
{
    if (offer(link, (uint64_t)1 << 30, "flood"))
        return 1;
    for (int i = 0; i < 100; i++)
        if (link_say(link, OFFER, 1, "again") != 0)
            return 1;
    return hear(link, DONE);
}

static int vanishes(struct link *link)
{
    if (offer(link, 200000, "vanishes") || link_write(link, 0, 65536) != 0 || hear(link, CREDIT))
        return 1;
    _exit(0);
}

static int silent(struct link *link)
{
    return offer(link, 200000, "silent") || hear(link, DONE);
}

static const struct manner SENDERS[] = {
    {"climbs", climbs},         {"nameless", nameless},         {"huge", huge},
    {"talks-first", talks_first}, {"ends-early", ends_early},   {"disorder", disorder},
    {"long-segment", long_segment}, {"too-much", too_much},     {"wrong-sum", wrong_sum},
    {"outside", outside},       {"flood", flood},               {"vanishes", vanishes},
    {"silent", silent},
};

static int credit_before(struct link *link)
{
    return hear(link, OFFER) || link_say(link, GRANT, 0, "") != 0 || link_say(link, CREDIT, 1000, "") != 0 ||
           hear(link, END);
}

static int says_done(struct link *link)
{
    return hear(link, OFFER) || link_say(link, DONE, 0, "") != 0 || hear(link, END);
}

static int refuses(struct link *link)
{
    link_fail(link, "no \033[31mroom");
    return hear(link, END);
}

static int leaves(struct link *link)
{
    (void)hear(link, OFFER);
    return 0;
}

static const struct manner RECEIVERS[] = {
    {"credit-before", credit_before}, {"says-done", says_done}, {"refuses", refuses}, {"leaves", leaves}};

static const struct manner *find(const struct manner *manners, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(manners[i].name, name) == 0)
            return &manners[i];
    say("there is no manner %s", name);
    exit(2);
}

static int as_sender(const char *host, const char *name)
{
    struct link link;
    const struct manner *manner = find(SENDERS, sizeof SENDERS / sizeof SENDERS[0], name);
    int outcome = 2;
    if (link_connect(&link, &OPTIONS, host) == 0)
        outcome = manner->act(&link) != 0;
    link_close(&link);
    return outcome;
}

static int as_receiver(const char *name)
{
    struct link link;
    const struct manner *manner = find(RECEIVERS, sizeof RECEIVERS / sizeof RECEIVERS[0], name);
    struct rdma_cm_id *listener = link_listen(&OPTIONS, NULL);
    if (listener == NULL)
        return 2;
    int outcome = link_accept(&link, &OPTIONS, listener);
    outcome = outcome == 0 ? manner->act(&link) != 0 : 2;
    link_close(&link);
    struct rdma_event_channel *channel = listener->channel;
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(channel);
    return outcome;
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "--receive") == 0)
        return as_receiver(words[2]);
    if (count == 3)
        return as_sender(words[1], words[2]);
    say("rude HOST MANNER, or rude --receive MANNER");
    return 2;
}
