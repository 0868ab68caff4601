/* hold COUNT: opens COUNT adapters, the last ones of the list, makes a completion queue and a queue pair of each,
 * reports that, and holds them until its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <infiniband/verbs.h>

static int fail(const char *what, const char *name)
{
    fprintf(stderr, "hold: %s: %s failed\n", name, what);
    return -1;
}

static int hold(struct ibv_device *device)
{
    const char *name = ibv_get_device_name(device);
    struct ibv_context *context = ibv_open_device(device);
    if (context == NULL)
        return fail("ibv_open_device", name);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    if (pd == NULL || cq == NULL)
        return fail("ibv_alloc_pd or ibv_create_cq", name);
    struct ibv_qp_init_attr wanted = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
    };
    return ibv_create_qp(pd, &wanted) == NULL ? fail("ibv_create_qp", name) : 0;
}

/* Raises the limit of descriptors: an open adapter takes some. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    int wanted = atoi(argv[1]), there = 0;
    allow_descriptors();
    struct ibv_device **devices = ibv_get_device_list(&there);
    if (devices == NULL || there < wanted) {
        fprintf(stderr, "hold: there are %d adapters\n", there);
        return 1;
    }
    for (int i = there - wanted; i < there; i++)
        if (hold(devices[i]) != 0)
            return 1;
    puts("held");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
