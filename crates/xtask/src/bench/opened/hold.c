/* hold PREFIX COUNT: opens as many adapters whose names begin like that, makes a completion queue and a queue
 * pair of each, says so, and holds them until its input ends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* An open adapter takes some descriptors. */
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
    if (argc != 3)
        return 2;
    long wanted = strtol(argv[2], NULL, 10), held = 0;
    allow_descriptors();
    struct ibv_device **devices = ibv_get_device_list(NULL);
    for (long i = 0; devices != NULL && devices[i] != NULL && held < wanted; i++) {
        if (strncmp(ibv_get_device_name(devices[i]), argv[1], strlen(argv[1])) != 0)
            continue;
        if (hold(devices[i]) != 0)
            return 1;
        held++;
    }
    if (held < wanted) {
        fprintf(stderr, "hold: there are %ld such adapters\n", held);
        return 1;
    }
    puts("held");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
