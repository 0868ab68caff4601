#include "waiting.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

#include "say.h"

/* Polls of the CQ between two checks of the clock and of the connection. */
static const uint32_t LOOKS = 4096;

int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

void waiting_start(struct waiting *waiting, struct link *link)
{
    *waiting = (struct waiting){.link = link};
}

struct rdma_cm_event *waiting_event(struct rdma_event_channel *channel, int timeout_ms)
{
    struct pollfd file = {.fd = channel->fd, .events = POLLIN};
    int ready;
    do
        ready = poll(&file, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    struct rdma_cm_event *event;
    return ready == 1 && rdma_get_cm_event(channel, &event) == 0 ? event : NULL;
}

/* Nothing that the peer sent before it left is lost: the CQ is first polled until it is empty. */
static int is_over(struct waiting *waiting)
{
    struct link *link = waiting->link;
    if (link->gone)
        return say("the other side went away before the end");
    struct rdma_cm_event *event = waiting_event(link->channel, 0);
    if (event != NULL) {
        link->gone = event->event == RDMA_CM_EVENT_DISCONNECTED ||
                     event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
        rdma_ack_cm_event(event);
        return 0;
    }
    int64_t now = now_ns();
    if (waiting->deadline_ns == 0)
        waiting->deadline_ns = now + link->options->timeout_ms * (int64_t)1000000;
    if (now < waiting->deadline_ns)
        return 0;
    return link_fail(link, "nothing came from the other side for %d ms", link->options->timeout_ms);
}

static int sleep_for_notice(struct link *link)
{
    struct pollfd files[2] = {
        {.fd = link->notices->fd, .events = POLLIN},
        {.fd = link->channel->fd, .events = POLLIN},
    };
    int ready = poll(files, 2, link->options->timeout_ms);
    if (ready < 0 && errno != EINTR)
        return say_errno("cannot wait for notifications");
    if (ready <= 0 || !(files[0].revents & POLLIN))
        return 0;
    struct ibv_cq *cq;
    void *context;
    if (ibv_get_cq_event(link->notices, &cq, &context) != 0)
        return say_errno("cannot read a notification");
    /* Acknowledging takes a lock, so many are acknowledged at once; closing does the rest. */
    if (++link->unacknowledged == 1024) {
        ibv_ack_cq_events(link->cq, link->unacknowledged);
        link->unacknowledged = 0;
    }
    return 0;
}

int waiting_step(struct waiting *waiting)
{
    struct link *link = waiting->link;
    if (link->options->polls)
        return ++waiting->looks % LOOKS != 0 ? 0 : is_over(waiting);
    /* A completion from before the arming raises no notification, hence one more poll. */
    if (!waiting->armed) {
        waiting->armed = 1;
        return ibv_req_notify_cq(link->cq, 0) == 0 ? 0 : say("cannot ask for notifications");
    }
    waiting->armed = 0;
    if (is_over(waiting) != 0)
        return -1;
    return link->gone ? 0 : sleep_for_notice(link);
}
