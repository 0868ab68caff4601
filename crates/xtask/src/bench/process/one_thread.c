/* one_thread WRITE|SEND COUNT: two connected queue pairs, one thread. Each in turn sends 2 bytes to the other. Prints
 * the time until they arrive, in microseconds: median, 99 % and 99.9 %. Polling both ends needs one core, not two. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum {
    BYTES = 2,
    SLOT = 4096,
    RECEIVES = 64,
    SENDING = 0, /* the first slot of each end */
    ARRIVING = 1,
    SLOTS = 2,
    PORT = 1,
    GID = 1, /* the adapter's IPv4 address */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *sent, *received;
static struct ibv_qp *ends[2];
static struct ibv_mr *mr;
static volatile char *memory;

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

static volatile char *slot(int end, int which)
{
    return memory + (end * SLOTS + which) * SLOT;
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static struct ibv_qp *queue_pair(void)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = sent,
        .recv_cq = received,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 2 * RECEIVES, .max_send_sge = 1, .max_recv_sge = 1},
    };
    return ibv_create_qp(pd, &wanted);
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = PORT, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    struct ibv_qp_attr receive = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_4096,
        .dest_qp_num = peer,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = PORT, .grh = {.dgid = *gid, .sgid_index = GID, .hop_limit = 64}},
    };
    struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    int to_init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    int to_receive = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                     IBV_QP_MIN_RNR_TIMER;
    int to_send = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    if (ibv_modify_qp(qp, &init, to_init) != 0 || ibv_modify_qp(qp, &receive, to_receive) != 0 ||
        ibv_modify_qp(qp, &send, to_send) != 0)
        fail("one_thread: ibv_modify_qp");
}

static void set_up(void)
{
    union ibv_gid gid;
    struct ibv_device **all = ibv_get_device_list(NULL);
    context = all == NULL || all[0] == NULL ? NULL : ibv_open_device(all[0]);
    pd = context == NULL ? NULL : ibv_alloc_pd(context);
    if (pd == NULL || ibv_query_gid(context, PORT, GID, &gid) != 0)
        fail("one_thread: no device");
    memory = aligned_alloc(SLOT, 2 * SLOTS * SLOT);
    memset((char *)memory, 0, 2 * SLOTS * SLOT);
    mr = ibv_reg_mr(pd, (char *)memory, 2 * SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    sent = ibv_create_cq(context, 8, NULL, NULL, 0);
    received = ibv_create_cq(context, 4 * RECEIVES, NULL, NULL, 0);
    if (mr == NULL || sent == NULL || received == NULL)
        fail("one_thread: no memory region or completion queue");
    for (int end = 0; end < 2; end++)
        if ((ends[end] = queue_pair()) == NULL)
            fail("one_thread: ibv_create_qp");
    for (int end = 0; end < 2; end++)
        connect_to(ends[end], ends[!end]->qp_num, &gid);
}

static void post_receives(int end)
{
    struct ibv_sge sge = {(uintptr_t)slot(end, ARRIVING), BYTES, mr->lkey};
    struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
    for (int i = 0; i < RECEIVES; i++)
        if (ibv_post_recv(ends[end], &wr, &bad) != 0)
            fail("one_thread: ibv_post_recv");
}

static void post(int from, enum ibv_wr_opcode opcode)
{
    struct ibv_sge sge = {(uintptr_t)slot(from, SENDING), BYTES, mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = (uintptr_t)slot(!from, ARRIVING);
    wr.wr.rdma.rkey = mr->rkey;
    if (ibv_post_send(ends[from], &wr, &bad) != 0)
        fail("one_thread: ibv_post_send");
}

static void complete(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
    }
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "one_thread: a request ended with: %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
}

/* Sends a message that differs from the last 100, and returns the time until it arrived. */
static double send_one(size_t number, enum ibv_wr_opcode opcode)
{
    int from = number % 2;
    char letter = number % 100 + 1;
    slot(from, SENDING)[0] = slot(from, SENDING)[BYTES - 1] = letter;
    double start = now_us();
    post(from, opcode);
    if (opcode == IBV_WR_SEND)
        complete(received);
    while (slot(!from, ARRIVING)[BYTES - 1] != letter) {
    }
    double taken = now_us() - start;
    complete(sent);
    return taken;
}

static int compare(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv)
{
    size_t count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    if (count == 0 || (strcmp(argv[1], "WRITE") != 0 && strcmp(argv[1], "SEND") != 0)) {
        fprintf(stderr, "one_thread WRITE|SEND COUNT\n");
        return 2;
    }
    enum ibv_wr_opcode opcode = argv[1][0] == 'W' ? IBV_WR_RDMA_WRITE : IBV_WR_SEND;
    double *taken = calloc(count, sizeof *taken);
    set_up();
    for (size_t i = 0; i < count; i++) {
        if (opcode == IBV_WR_SEND && i % (2 * RECEIVES) == 0) {
            post_receives(0);
            post_receives(1);
        }
        taken[i] = send_one(i, opcode);
    }
    qsort(taken, count, sizeof *taken, compare);
    printf("%.3f %.3f %.3f\n", taken[count / 2], taken[count * 99 / 100], taken[count * 999 / 1000]);
    return 0;
}
