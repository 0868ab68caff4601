/* Sets links up and closes them. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link.h"
#include "say.h"
#include "waiting.h"

static int buffers(struct link *link, int from_outside)
{
    size_t messages = (size_t)(LINK_SENDS + LINK_RECEIVES) * WIRE_MESSAGE;
    size_t data = (size_t)link->ring.slots * link->ring.segment;
    unsigned access = IBV_ACCESS_LOCAL_WRITE;
    access |= from_outside ? IBV_ACCESS_REMOTE_WRITE : 0;
    void *memory[2];
    if (posix_memalign(&memory[0], 4096, messages) != 0)
        return say("no memory for messages");
    link->messages = memory[0];
    if (posix_memalign(&memory[1], 4096, data) != 0)
        return say("no memory for %zu bytes of slots", data);
    link->data = memory[1];
    link->message_region = ibv_reg_mr(link->pd, link->messages, messages, IBV_ACCESS_LOCAL_WRITE);
    link->data_region = ibv_reg_mr(link->pd, link->data, data, access);
    if (link->message_region == NULL || link->data_region == NULL)
        return say_errno("cannot register memory");
    return 0;
}

static int queues(struct link *link)
{
    int entries = LINK_SENDS + LINK_RECEIVES + WIRE_MAX_SLOTS;
    link->pd = ibv_alloc_pd(link->id->verbs);
    if (link->pd == NULL)
        return say_errno("cannot make a protection domain");
    if (!link->options->polls) {
        link->notices = ibv_create_comp_channel(link->id->verbs);
        if (link->notices == NULL)
            return say_errno("cannot make a completion channel");
    }
    link->cq = ibv_create_cq(link->id->verbs, entries, NULL, link->notices, 0);
    if (link->cq == NULL)
        return say_errno("cannot make a completion queue");
    struct ibv_qp_init_attr wanted = {
        .send_cq = link->cq,
        .recv_cq = link->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {
            .max_send_wr = LINK_SENDS + WIRE_MAX_SLOTS,
            .max_recv_wr = LINK_RECEIVES,
            .max_send_sge = 1,
            .max_recv_sge = 1,
        },
    };
    if (rdma_create_qp(link->id, link->pd, &wanted) != 0)
        return say_errno("cannot make a queue pair");
    return 0;
}

static int prepare(struct link *link, int from_outside)
{
    if (queues(link) != 0 || buffers(link, from_outside) != 0)
        return -1;
    for (uint32_t index = 0; index < LINK_RECEIVES; index++)
        if (link_post_receive(link, index) != 0)
            return -1;
    return 0;
}

/* Waits for an event, which the caller acknowledges; NULL after printing what came instead. */
static struct rdma_cm_event *expect(struct link *link, enum rdma_cm_event_type wanted, const char *doing)
{
    struct rdma_cm_event *event = waiting_event(link->channel, link->options->timeout_ms);
    if (event == NULL) {
        say("%s: no answer for %d ms", doing, link->options->timeout_ms);
        return NULL;
    }
    if (event->event == wanted)
        return event;
    if (event->event == RDMA_CM_EVENT_REJECTED)
        say("%s: refused; does a receiver of the same version listen there?", doing);
    else
        say("%s: %s", doing, rdma_event_str(event->event));
    rdma_ack_cm_event(event);
    return NULL;
}

static int step(struct link *link, int started, enum rdma_cm_event_type wanted, const char *doing)
{
    if (started != 0)
        return say_errno("%s", doing);
    struct rdma_cm_event *event = expect(link, wanted, doing);
    if (event == NULL)
        return -1;
    rdma_ack_cm_event(event);
    return 0;
}

static int find_way(struct link *link, const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int error = getaddrinfo(host, link->options->port, &hints, &found);
    if (error != 0)
        return say("%s, port %s: %s", host, link->options->port, gai_strerror(error));
    int timeout = link->options->timeout_ms;
    int started = rdma_resolve_addr(link->id, NULL, found->ai_addr, timeout);
    freeaddrinfo(found);
    if (step(link, started, RDMA_CM_EVENT_ADDR_RESOLVED, "finding the adapter for that address") != 0)
        return -1;
    started = rdma_resolve_route(link->id, timeout);
    return step(link, started, RDMA_CM_EVENT_ROUTE_RESOLVED, "finding the way");
}

static int request(struct link *link)
{
    unsigned char hello[WIRE_HELLO];
    wire_put_hello(hello, &link->ring);
    struct rdma_conn_param wanted = {
        .private_data = hello, .private_data_len = sizeof hello, .retry_count = 7, .rnr_retry_count = 7};
    if (rdma_connect(link->id, &wanted) != 0)
        return say_errno("connecting");
    struct rdma_cm_event *event = expect(link, RDMA_CM_EVENT_ESTABLISHED, "connecting");
    if (event == NULL)
        return -1;
    struct ring offered;
    const struct rdma_conn_param *answer = &event->param.conn;
    int fits = wire_take_ring(answer->private_data, answer->private_data_len, &offered) == 0;
    rdma_ack_cm_event(event);
    link->established = 1;
    /* The slots here were made as requested; the receiver may reduce them, never increase them. */
    if (!fits || offered.slots > link->ring.slots || offered.segment > link->ring.segment)
        return say("what answers there is no receiver of vrdma-cp");
    link->ring = offered;
    return 0;
}

int link_connect(struct link *link, const struct link_options *options, const char *host)
{
    *link = (struct link){
        .options = options, .ring = {.slots = options->slots, .segment = options->segment}};
    link->channel = rdma_create_event_channel();
    if (link->channel == NULL)
        return say_errno("there is no RDMA here");
    if (rdma_create_id(link->channel, &link->id, NULL, RDMA_PS_TCP) != 0)
        return say_errno("cannot make an identifier");
    if (find_way(link, host) != 0 || prepare(link, 0) != 0)
        return -1;
    return request(link);
}

struct rdma_cm_id *link_listen(const struct link_options *options, const char *address)
{
    int family = address == NULL ? AF_INET : AF_UNSPEC;
    struct addrinfo hints = {
        .ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found;
    int error = getaddrinfo(address, options->port, &hints, &found);
    if (error != 0) {
        say("%s, port %s: %s", address == NULL ? "any address" : address, options->port, gai_strerror(error));
        return NULL;
    }
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener = NULL;
    if (channel == NULL)
        say_errno("there is no RDMA here");
    else if (rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0)
        say_errno("cannot make an identifier");
    else if (rdma_bind_addr(listener, found->ai_addr) == 0 && rdma_listen(listener, 8) == 0) {
        freeaddrinfo(found);
        return listener;
    } else
        say_errno("cannot listen on port %s", options->port);
    freeaddrinfo(found);
    if (listener != NULL)
        rdma_destroy_id(listener);
    if (channel != NULL)
        rdma_destroy_event_channel(channel);
    return NULL;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Gives a connection a channel of its own, so that its events do not mix with other senders' requests. */
static int take_request(struct link *link, struct rdma_cm_event *event)
{
    const struct rdma_conn_param *asked = &event->param.conn;
    int fits = wire_take_hello(asked->private_data, asked->private_data_len, &link->ring) == 0;
    link->id = event->id;
    rdma_ack_cm_event(event);
    if (!fits)
        return say("a sender was refused: it is not vrdma-cp, or asks for too much");
    link->ring.slots = smaller(link->ring.slots, link->options->slots);
    link->ring.segment = smaller(link->ring.segment, link->options->segment);
    link->channel = rdma_create_event_channel();
    if (link->channel == NULL || rdma_migrate_id(link->id, link->channel) != 0)
        return say_errno("cannot make an event channel");
    return prepare(link, 1);
}

static int answer(struct link *link)
{
    unsigned char bytes[WIRE_RING];
    link->ring.rkey = link->data_region->rkey;
    link->ring.address = (uintptr_t)link->data;
    wire_put_ring(bytes, &link->ring);
    struct rdma_conn_param wanted = {
        .private_data = bytes, .private_data_len = sizeof bytes, .rnr_retry_count = 7};
    int started = rdma_accept(link->id, &wanted);
    if (step(link, started, RDMA_CM_EVENT_ESTABLISHED, "accepting a sender") != 0)
        return -1;
    link->established = 1;
    return 0;
}

int link_accept(struct link *link, const struct link_options *options, struct rdma_cm_id *listener)
{
    *link = (struct link){.options = options};
    struct rdma_cm_event *event = waiting_event(listener->channel, -1);
    if (event == NULL)
        return say_errno("cannot wait for senders");
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
        rdma_ack_cm_event(event);
        return 1;
    }
    if (take_request(link, event) == 0)
        return answer(link) == 0 ? 0 : 1;
    rdma_reject(link->id, NULL, 0);
    return 1;
}

/* Waits until the last messages have arrived, or the other side has left or does not answer. */
static void drain(struct link *link)
{
    int64_t deadline = now_ns() + (int64_t)1000000000;
    while (link->sent_done < link->sent && now_ns() < deadline) {
        struct ibv_wc wc;
        int count = ibv_poll_cq(link->cq, 1, &wc);
        if (count < 0 || (count == 1 && wc.status != IBV_WC_SUCCESS))
            return;
        if (count == 1 && wc.wr_id >> 32 == LINK_SENT)
            link->sent_done++;
        if (count == 0)
            usleep(100);
    }
}

static void free_buffers(struct link *link)
{
    if (link->message_region != NULL)
        ibv_dereg_mr(link->message_region);
    if (link->data_region != NULL)
        ibv_dereg_mr(link->data_region);
    free(link->messages);
    free(link->data);
}

void link_close(struct link *link)
{
    if (link->established) {
        drain(link);
        rdma_disconnect(link->id);
    }
    if (link->id != NULL && link->id->qp != NULL)
        rdma_destroy_qp(link->id);
    if (link->cq != NULL) {
        ibv_ack_cq_events(link->cq, link->unacknowledged);
        ibv_destroy_cq(link->cq);
    }
    free_buffers(link);
    if (link->notices != NULL)
        ibv_destroy_comp_channel(link->notices);
    if (link->pd != NULL)
        ibv_dealloc_pd(link->pd);
    if (link->id != NULL)
        rdma_destroy_id(link->id);
    if (link->channel != NULL)
        rdma_destroy_event_channel(link->channel);
    *link = (struct link){0};
}
