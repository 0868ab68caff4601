/*
 * Collective operations over all ranks. A figure is the mean over the ranks of their typical times, for
 * `RANKSxBYTES`; bytes are those that one rank gives to one other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

struct buffers {
    unsigned char *out, *in;
};

/* One operation, and the functions that make its input and check its output. */
struct operation {
    void (*prepare)(const struct bench *, struct buffers, uint64_t bytes);
    void (*once)(const struct bench *, struct buffers, uint64_t bytes);
    void (*verify)(const struct bench *, struct buffers, uint64_t bytes);
};

static double timed(const struct bench *bench, const struct operation *operation, struct buffers buffers, uint64_t bytes)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    operation->once(bench, buffers, bytes);
    return (MPI_Wtime() - start) * 1e6;
}

static void measure(const struct bench *bench, const struct operation *operation, struct buffers buffers, uint64_t bytes)
{
    int count = repetitions(bench, bytes * (uint64_t)bench->ranks);
    double *times = memory(bench, (size_t)count * sizeof *times);
    operation->prepare(bench, buffers, bytes);
    for (int i = -warm_up(bench); i < count; i++) {
        double time = timed(bench, operation, buffers, bytes);
        if (i >= 0)
            times[i] = time;
    }
    operation->verify(bench, buffers, bytes);
    double own[2], all[2];
    own[1] = mean(times, count);
    own[0] = median(times, count);
    MPI_Allreduce(own, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    char size[48];
    snprintf(size, sizeof size, "%dx%" PRIu64, bench->ranks, bytes);
    report(bench, size, all[0] / bench->ranks, all[1] / bench->ranks, "us");
    free(times);
}

static void run(const struct bench *bench, const struct operation *operation)
{
    size_t room = (size_t)bench->options.most * (size_t)bench->ranks;
    struct buffers buffers = {.out = memory(bench, room), .in = memory(bench, room)};
    for (uint64_t bytes = bench->options.least; bytes <= bench->options.most; bytes *= 2)
        measure(bench, operation, buffers, bytes);
    free(buffers.out);
    free(buffers.in);
}

/* bcast: the other ranks begin with other contents. */

static void prepare_bcast(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    fill(buffers.out, bytes, bench->rank == 0 ? bytes : bytes + 1);
}

static void once_bcast(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    (void)bench;
    MPI_Bcast(buffers.out, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void verify_bcast(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    check(bench, buffers.out, bytes, bytes);
}

void test_bcast(const struct bench *bench)
{
    run(bench, &(struct operation){prepare_bcast, once_bcast, verify_bcast});
}

/* allreduce: sums of 32-bit words, which are exact. */

static void prepare_allreduce(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    uint32_t *words = (uint32_t *)(void *)buffers.out;
    for (uint64_t i = 0; i < bytes / 4; i++)
        words[i] = (uint32_t)(i * 7 + (uint64_t)bench->rank);
    memset(buffers.in, 0, bytes);
}

static void once_allreduce(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    (void)bench;
    MPI_Allreduce(buffers.out, buffers.in, (int)(bytes / 4), MPI_UINT32_T, MPI_SUM, MPI_COMM_WORLD);
}

static void verify_allreduce(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    const uint32_t *words = (const uint32_t *)(const void *)buffers.in;
    uint64_t ranks = (uint64_t)bench->ranks;
    for (uint64_t i = 0; i < bytes / 4; i++)
        if (words[i] != (uint32_t)(i * 7 * ranks + ranks * (ranks - 1) / 2))
            fail(bench, "allreduce of %" PRIu64 " bytes: wrong sum in word %" PRIu64, bytes, i);
}

void test_allreduce(const struct bench *bench)
{
    if (bench->options.least % 4 != 0)
        fail(bench, "allreduce adds words of 4 bytes: --sizes must begin with a multiple of 4");
    run(bench, &(struct operation){prepare_allreduce, once_allreduce, verify_allreduce});
}

/* alltoall and allgather: each block encodes its sender and receiver. */

static uint64_t seed_of(uint64_t from, uint64_t to)
{
    return from * 1000003 + to;
}

static void prepare_alltoall(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    for (int to = 0; to < bench->ranks; to++)
        fill(buffers.out + (uint64_t)to * bytes, bytes, seed_of((uint64_t)bench->rank, (uint64_t)to));
    memset(buffers.in, 0, bytes * (uint64_t)bench->ranks);
}

static void once_alltoall(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    (void)bench;
    MPI_Alltoall(buffers.out, (int)bytes, MPI_BYTE, buffers.in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void verify_alltoall(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    for (int from = 0; from < bench->ranks; from++)
        check(bench, buffers.in + (uint64_t)from * bytes, bytes, seed_of((uint64_t)from, (uint64_t)bench->rank));
}

void test_alltoall(const struct bench *bench)
{
    run(bench, &(struct operation){prepare_alltoall, once_alltoall, verify_alltoall});
}

static void prepare_allgather(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    fill(buffers.out, bytes, (uint64_t)bench->rank);
    memset(buffers.in, 0, bytes * (uint64_t)bench->ranks);
}

static void once_allgather(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    (void)bench;
    MPI_Allgather(buffers.out, (int)bytes, MPI_BYTE, buffers.in, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

static void verify_allgather(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    for (int from = 0; from < bench->ranks; from++)
        check(bench, buffers.in + (uint64_t)from * bytes, bytes, (uint64_t)from);
}

void test_allgather(const struct bench *bench)
{
    run(bench, &(struct operation){prepare_allgather, once_allgather, verify_allgather});
}

/* barrier: it has no result. */

static void nothing(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    (void)bench, (void)buffers, (void)bytes;
}

static void once_barrier(const struct bench *bench, struct buffers buffers, uint64_t bytes)
{
    nothing(bench, buffers, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
}

void test_barrier(const struct bench *bench)
{
    measure(bench, &(struct operation){nothing, once_barrier, nothing}, (struct buffers){0}, 0);
}
