/* regions DEVICE COUNT: registers COUNT memory regions of one page, reports that, and holds them until it is killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>

enum { PAGE = 4096 };

static struct ibv_context *open_device(const char *name)
{
    int count = 0;
    struct ibv_device **all = ibv_get_device_list(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(ibv_get_device_name(all[i]), name) == 0)
            return ibv_open_device(all[i]);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    size_t count = strtoul(argv[2], NULL, 10);
    struct ibv_context *context = open_device(argv[1]);
    struct ibv_pd *pd = context == NULL ? NULL : ibv_alloc_pd(context);
    char *pages = mmap(NULL, count * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pd == NULL || pages == MAP_FAILED) {
        perror("regions: no device or no memory");
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        if (ibv_reg_mr(pd, pages + i * PAGE, PAGE, rights) == NULL) {
            fprintf(stderr, "regions: %zu regions, and then: ", i);
            perror("ibv_reg_mr");
            return 1;
        }
    }
    puts("held");
    fflush(stdout);
    for (;;)
        pause();
}
