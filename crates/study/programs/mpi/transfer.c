/*
 * One large transfer, or several at once: rank i of the first half sends, rank i of the second receives. With
 * --piece the same memory is sent repeatedly until all bytes are sent. Each transfer has a figure of its own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static void move(const struct bench *bench, unsigned char *bytes, int sends, int peer)
{
    uint64_t rest = bench->options.most;
    while (rest > 0) {
        uint64_t now = rest < bench->options.piece ? rest : bench->options.piece;
        if (sends)
            send_to(bench, bytes, now, peer);
        else
            receive_from(bench, bytes, now, peer);
        rest -= now;
    }
}

/* Seconds until the receiver has everything and reports that. */
static double once(const struct bench *bench, unsigned char *bytes, int sends, int peer)
{
    char done = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    move(bench, bytes, sends, peer);
    if (sends)
        receive_from(bench, &done, 1, peer);
    else
        send_to(bench, &done, 1, peer);
    return MPI_Wtime() - start;
}

static void report_all(const struct bench *bench, double *times, int count)
{
    double own[2], all[2 * 64];
    own[1] = mean(times, count);
    own[0] = median(times, count);
    MPI_Gather(own, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    for (int pair = 0; bench->rank == 0 && pair < bench->options.pairs; pair++) {
        char size[64];
        if (bench->options.pairs == 1)
            snprintf(size, sizeof size, "%s", bench->options.name);
        else
            snprintf(size, sizeof size, "%s.%d", bench->options.name, pair + 1);
        report(bench, size, all[2 * pair], all[2 * pair + 1], "s");
    }
}

void test_transfer(const struct bench *bench)
{
    int pairs = bench->options.pairs, count = bench->options.iterations;
    if (bench->ranks != 2 * pairs)
        fail(bench, "%d transfers at once need %d ranks, not %d", pairs, 2 * pairs, bench->ranks);
    uint64_t piece = bench->options.piece;
    unsigned char *bytes = memory(bench, piece);
    double *times = memory(bench, (size_t)count * sizeof *times);
    int sends = bench->rank < pairs;
    int peer = sends ? bench->rank + pairs : bench->rank - pairs;
    /* The receiver's pages must be present before the clock runs, as the sender's are. */
    memset(bytes, 0, piece);
    wait_at_gate(bench);
    for (int i = 0; i < count; i++) {
        uint64_t seed = (uint64_t)i << 32 | (uint64_t)(sends ? bench->rank : peer);
        if (sends)
            fill(bytes, piece, seed);
        times[i] = once(bench, bytes, sends, peer);
        /* The last piece may be shorter, and overlies an earlier one. */
        check(bench, bytes, piece, seed);
    }
    report_all(bench, times, count);
    free(bytes);
    free(times);
}
