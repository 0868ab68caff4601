/* churn queue-pairs|registrations: makes and destroys a queue pair, or registers and deregisters 1 GiB, until it
 * is killed. It reports when it has done so once. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>

#define REGION_BYTES ((size_t)1 << 30)

static int fail(const char *what)
{
    fprintf(stderr, "churn: %s failed\n", what);
    return -1;
}

static int queue_pair(struct ibv_pd *pd, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_qp *made = ibv_create_qp(pd, &wanted);
    return made == NULL || ibv_destroy_qp(made) != 0 ? fail("ibv_create_qp or ibv_destroy_qp") : 0;
}

static int registration(struct ibv_pd *pd, void *memory)
{
    struct ibv_mr *made = ibv_reg_mr(pd, memory, REGION_BYTES, IBV_ACCESS_LOCAL_WRITE);
    return made == NULL || ibv_dereg_mr(made) != 0 ? fail("ibv_reg_mr or ibv_dereg_mr") : 0;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    int registers = strcmp(argv[1], "registrations") == 0;
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_context *context = devices == NULL || devices[0] == NULL ? NULL : ibv_open_device(devices[0]);
    if (context == NULL)
        return fail("ibv_open_device") != 0;
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 256, NULL, NULL, 0);
    void *memory = mmap(NULL, REGION_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pd == NULL || cq == NULL || memory == MAP_FAILED)
        return fail("ibv_alloc_pd, ibv_create_cq or mmap") != 0;
    for (int said = 0;; said = 1) {
        if ((registers ? registration(pd, memory) : queue_pair(pd, cq)) != 0)
            return 1;
        if (!said)
            puts("churning");
        fflush(stdout);
    }
}
