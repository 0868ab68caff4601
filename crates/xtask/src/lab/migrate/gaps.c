/* Measures how long writes of 64 bytes remain unanswered.
 *
 *   gaps -R COUNT                   gives COUNT queue pairs 64 bytes each, and does nothing until all have gone
 *   gaps -R COUNT SECONDS ADDRESS   writes them repeatedly, one write of each queue pair under way, and prints each
 *                                   time of more than 5 ms between two completions of a queue pair: "gap BEGAN LENGTH",
 *                                   in microseconds of wall-clock time; of overlapping gaps, only the longest. At the
 *                                   end it reads what it wrote, and compares.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

enum { SLOT = 64, TOLD_US = 5000, READ_BACK = 1 };

static const char PORT[] = "18515";

/* What a listener offers each queue pair. */
struct place {
    uint64_t address;
    uint32_t rkey;
} __attribute__((packed));

/* A queue pair of the writer. */
struct writer {
    struct rdma_cm_id *id;
    struct place place;
    uint64_t written;
    int64_t completed_us;
};

/* The longest of several overlapping gaps. */
struct gap {
    int64_t began_us;
    int64_t ended_us;
};

/* Objects that all queue pairs share. */
struct shared {
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_comp_channel *channel;
    struct ibv_mr *mr;
    char *slots;
};

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static struct shared share(struct ibv_context *context, int count, size_t slots)
{
    struct shared all = {.slots = aligned_alloc(4096, (slots * SLOT + 4095) / 4096 * 4096)};
    int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    memset(all.slots, 0, slots * SLOT);
    all.pd = ibv_alloc_pd(context);
    all.channel = ibv_create_comp_channel(context);
    all.cq = ibv_create_cq(context, count + 1, NULL, all.channel, 0);
    all.mr = all.pd == NULL ? NULL : ibv_reg_mr(all.pd, all.slots, slots * SLOT, rights);
    if (all.cq == NULL || all.mr == NULL)
        fail("gaps: no completion queue or memory region");
    return all;
}

static void make_queue_pair(struct rdma_cm_id *id, const struct shared *all)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = all->cq,
        .recv_cq = all->cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    if (rdma_create_qp(id, all->pd, &wanted) != 0)
        fail("gaps: rdma_create_qp");
}

static void accept_writer(struct rdma_cm_id *id, const struct shared *all, int number)
{
    struct place place = {(uintptr_t)all->slots + (uintptr_t)number * SLOT, all->mr->rkey};
    struct rdma_conn_param answer = {
        .private_data = &place, .private_data_len = sizeof place, .responder_resources = 1, .rnr_retry_count = 7};
    make_queue_pair(id, all);
    if (rdma_accept(id, &answer) != 0)
        fail("gaps: rdma_accept");
}

static int listen_for(int count)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *here;
    struct rdma_cm_id *listener;
    struct rdma_cm_event *event;
    struct shared all = {.slots = NULL};
    if (channel == NULL || rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) != 0)
        fail("gaps: rdma_create_id");
    if (rdma_getaddrinfo(NULL, PORT, &hints, &here) != 0 || rdma_bind_addr(listener, here->ai_src_addr) != 0 ||
        rdma_listen(listener, count) != 0)
        fail("gaps: rdma_listen");
    for (int came = 0, left = 0; left < count;) {
        if (rdma_get_cm_event(channel, &event) != 0)
            fail("gaps: rdma_get_cm_event");
        struct rdma_cm_id *id = event->id;
        enum rdma_cm_event_type what = event->event;
        rdma_ack_cm_event(event);
        if (what == RDMA_CM_EVENT_CONNECT_REQUEST && came < count) {
            if (came == 0)
                all = share(id->verbs, count, count);
            accept_writer(id, &all, came++);
        } else if (what == RDMA_CM_EVENT_DISCONNECTED) {
            rdma_disconnect(id); /* The writer waits for this answer. */
            left++;
        }
    }
    return 0;
}

static void resolve(struct writer *writer, const char *address)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *there;
    if (rdma_getaddrinfo(address, PORT, &hints, &there) != 0 || rdma_create_id(NULL, &writer->id, NULL, RDMA_PS_TCP) != 0 ||
        rdma_resolve_addr(writer->id, NULL, there->ai_dst_addr, 5000) != 0 || rdma_resolve_route(writer->id, 5000) != 0)
        fail("gaps: the listener's address");
    rdma_freeaddrinfo(there);
}

static void connect_to(struct writer *writer, const struct shared *all)
{
    struct rdma_conn_param wanted = {.initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    make_queue_pair(writer->id, all);
    if (rdma_connect(writer->id, &wanted) != 0 || writer->id->event == NULL)
        fail("gaps: rdma_connect");
    memcpy(&writer->place, writer->id->event->param.conn.private_data, sizeof writer->place);
}

static void post(struct writer *writer, const struct shared *all, size_t number, enum ibv_wr_opcode opcode, size_t slot)
{
    struct ibv_sge sge = {(uintptr_t)all->slots + slot * SLOT, SLOT, all->mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = writer->place.address;
    wr.wr.rdma.rkey = writer->place.rkey;
    if (ibv_post_send(writer->id->qp, &wr, &bad) != 0)
        fail("gaps: ibv_post_send");
}

static void write_next(struct writer *writer, const struct shared *all, size_t number)
{
    uint64_t *words = (uint64_t *)(all->slots + number * SLOT);
    writer->written++;
    for (size_t i = 0; i < SLOT / sizeof *words; i++)
        words[i] = writer->written;
    post(writer, all, number, IBV_WR_RDMA_WRITE, number);
}

/* Waits for the next completion and returns its queue pair. */
static size_t completed(const struct shared *all)
{
    struct ibv_wc wc;
    int got;
    while ((got = ibv_poll_cq(all->cq, 1, &wc)) == 0) {
        struct ibv_cq *cq;
        void *context;
        ibv_req_notify_cq(all->cq, 0);
        if ((got = ibv_poll_cq(all->cq, 1, &wc)) != 0)
            break;
        if (ibv_get_cq_event(all->channel, &cq, &context) != 0)
            fail("gaps: ibv_get_cq_event");
        ibv_ack_cq_events(cq, 1);
    }
    if (got < 0 || wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "gaps: a request ended with: %s\n", got < 0 ? "no completion" : ibv_wc_status_str(wc.status));
        exit(1);
    }
    return wc.wr_id;
}

static void tell(const struct gap *gap)
{
    if (gap->ended_us > gap->began_us)
        printf("gap %lld %lld\n", (long long)gap->began_us, (long long)(gap->ended_us - gap->began_us));
}

/* Notes a gap. Of overlapping gaps, only the longest is printed. */
static void note(struct gap *longest, int64_t began_us, int64_t ended_us)
{
    if (ended_us - began_us <= TOLD_US)
        return;
    int overlaps = began_us < longest->ended_us;
    if (overlaps && ended_us - began_us <= longest->ended_us - longest->began_us)
        return;
    if (!overlaps)
        tell(longest);
    longest->began_us = began_us;
    longest->ended_us = ended_us;
}

static void write_for(struct writer *writers, const struct shared *all, size_t count, int seconds)
{
    struct gap longest = {0};
    int64_t start_us = now_us(), end_us = start_us + seconds * 1000000LL;
    for (size_t i = 0; i < count; i++) {
        writers[i].completed_us = start_us;
        write_next(&writers[i], all, i);
    }
    for (size_t under_way = count; under_way > 0;) {
        size_t number = completed(all);
        int64_t at_us = now_us();
        note(&longest, writers[number].completed_us, at_us);
        writers[number].completed_us = at_us;
        if (at_us < end_us)
            write_next(&writers[number], all, number);
        else
            under_way--;
    }
    tell(&longest);
}

/* Checks that each slot is as its last write left it. */
static int compare(struct writer *writers, const struct shared *all, size_t count)
{
    uint64_t writes = 0;
    for (size_t i = 0; i < count; i++) {
        post(&writers[i], all, i, IBV_WR_RDMA_READ, count);
        if (completed(all) != i || memcmp(all->slots + i * SLOT, all->slots + count * SLOT, SLOT) != 0) {
            fprintf(stderr, "gaps: queue pair %zu has written something else\n", i);
            return 1;
        }
        writes += writers[i].written;
    }
    printf("%llu writes\n", (unsigned long long)writes);
    return 0;
}

static int write_to(const char *address, size_t count, int seconds)
{
    struct writer *writers = calloc(count, sizeof *writers);
    struct shared all = {.slots = NULL};
    for (size_t i = 0; i < count; i++) {
        resolve(&writers[i], address);
        if (i == 0)
            all = share(writers[i].id->verbs, count, count + READ_BACK);
        connect_to(&writers[i], &all);
    }
    write_for(writers, &all, count, seconds);
    int status = compare(writers, &all, count);
    for (size_t i = 0; i < count; i++)
        rdma_disconnect(writers[i].id);
    return status;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 0;
    if (count > 0 && argc == 3)
        return listen_for(count);
    if (count > 0 && argc == 5)
        return write_to(argv[4], count, atoi(argv[3]));
    fprintf(stderr, "gaps -R COUNT [SECONDS ADDRESS]\n");
    return 2;
}
