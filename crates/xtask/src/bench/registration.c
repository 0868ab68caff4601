/* registration DEVICE BYTES TIMES: registers new, touched memory of this length repeatedly, and prints the median
 * times of registering and of deregistering, in microseconds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <infiniband/verbs.h>

enum { TIMES_MAX = 1000 };

static struct ibv_context *open_device(const char *name)
{
    int count = 0;
    struct ibv_device **all = ibv_get_device_list(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(ibv_get_device_name(all[i]), name) == 0)
            return ibv_open_device(all[i]);
    return NULL;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int compare(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static double middle(double *of, size_t count)
{
    qsort(of, count, sizeof *of, compare);
    return of[count / 2];
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    size_t bytes = strtoul(argv[2], NULL, 10);
    size_t times = strtoul(argv[3], NULL, 10);
    struct ibv_context *context = open_device(argv[1]);
    struct ibv_pd *pd = context == NULL ? NULL : ibv_alloc_pd(context);
    if (pd == NULL || times == 0 || times > TIMES_MAX) {
        fprintf(stderr, "registration: no device, or not 1 to %d times\n", TIMES_MAX);
        return 1;
    }
    static double registered[TIMES_MAX], deregistered[TIMES_MAX];
    for (size_t i = 0; i < times; i++) {
        char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            perror("registration: memory");
            return 1;
        }
        memset(memory, 1, bytes);
        double start = now();
        struct ibv_mr *mr = ibv_reg_mr(pd, memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        registered[i] = now() - start;
        if (mr == NULL) {
            perror("registration: ibv_reg_mr");
            return 1;
        }
        start = now();
        if (ibv_dereg_mr(mr) != 0) {
            perror("registration: ibv_dereg_mr");
            return 1;
        }
        deregistered[i] = now() - start;
        munmap(memory, bytes);
    }
    printf("%.2f %.2f\n", middle(registered, times), middle(deregistered, times));
    return 0;
}
