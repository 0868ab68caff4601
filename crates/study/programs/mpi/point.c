/*
 * Between two ranks, or between several pairs at once: rank i of the first half and rank i of the second.
 *
 *   latency    one message there, one back; a figure is half of that
 *   bandwidth  a window of messages there, one word back
 *   rate       the same with small messages, as messages a second
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { WINDOW = 64 };

struct ends {
    int leads;
    int peer;
    unsigned char *out, *in;
};

static struct ends ends(const struct bench *bench)
{
    if (bench->ranks % 2 != 0)
        fail(bench, "%s needs an even number of ranks", bench->options.test);
    int half = bench->ranks / 2;
    int leads = bench->rank < half;
    return (struct ends){
        .leads = leads,
        .peer = leads ? bench->rank + half : bench->rank - half,
        .out = memory(bench, bench->options.most),
        .in = memory(bench, bench->options.most),
    };
}

static void end(struct ends *ends)
{
    free(ends->out);
    free(ends->in);
}

static double round_trip(const struct bench *bench, const struct ends *ends, uint64_t bytes)
{
    double start = MPI_Wtime();
    if (ends->leads)
        send_to(bench, ends->out, bytes, ends->peer);
    receive_from(bench, ends->in, bytes, ends->peer);
    if (!ends->leads)
        send_to(bench, ends->out, bytes, ends->peer);
    return MPI_Wtime() - start;
}

static void latency_of(const struct bench *bench, struct ends *ends, uint64_t bytes)
{
    int count = repetitions(bench, bytes);
    double *times = memory(bench, (size_t)count * sizeof *times);
    fill(ends->out, bytes, bytes + (uint64_t)bench->rank);
    memset(ends->in, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -warm_up(bench); i < count; i++) {
        double time = round_trip(bench, ends, bytes);
        if (i >= 0)
            times[i] = time / 2 * 1e6;
    }
    check(bench, ends->in, bytes, bytes + (uint64_t)ends->peer);
    double average = mean(times, count);
    report_bytes(bench, bytes, median(times, count), average, "us");
    free(times);
}

void test_latency(const struct bench *bench)
{
    struct ends both = ends(bench);
    for (uint64_t bytes = bench->options.least; bytes <= bench->options.most; bytes *= 2)
        latency_of(bench, &both, bytes);
    end(&both);
}

static double window(const struct bench *bench, const struct ends *ends, uint64_t bytes)
{
    MPI_Request requests[WINDOW];
    unsigned char answer[4] = {0};
    double start = MPI_Wtime();
    for (int i = 0; i < WINDOW; i++)
        if (ends->leads)
            MPI_Isend(ends->out, (int)bytes, MPI_BYTE, ends->peer, 0, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(ends->in, (int)bytes, MPI_BYTE, ends->peer, 0, MPI_COMM_WORLD, &requests[i]);
    wait_all(bench, WINDOW, requests);
    if (ends->leads)
        receive_from(bench, answer, sizeof answer, ends->peer);
    else
        send_to(bench, answer, sizeof answer, ends->peer);
    return MPI_Wtime() - start;
}

/* Messages a second of all pairs, computed from the typical window and from the whole time. */
struct speed {
    double typical, average;
};

static struct speed speed_of(const struct bench *bench, struct ends *ends, uint64_t bytes)
{
    int count = repetitions(bench, bytes * WINDOW) / 4 + 10;
    double *times = memory(bench, (size_t)count * sizeof *times);
    fill(ends->out, bytes, bytes);
    memset(ends->in, 0, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = -warm_up(bench) / 10 - 1; i < count; i++) {
        double time = window(bench, ends, bytes);
        if (i >= 0)
            times[i] = time;
    }
    if (!ends->leads)
        check(bench, ends->in, bytes, bytes);
    double own[2] = {0, 0}, all[2];
    if (ends->leads) {
        own[1] = WINDOW / mean(times, count);
        own[0] = WINDOW / median(times, count);
    }
    MPI_Allreduce(own, all, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(times);
    return (struct speed){.typical = all[0], .average = all[1]};
}

static void speeds(const struct bench *bench, int counts)
{
    struct ends both = ends(bench);
    for (uint64_t bytes = bench->options.least; bytes <= bench->options.most; bytes *= 2) {
        struct speed speed = speed_of(bench, &both, bytes);
        double scale = counts ? 1e-6 : (double)bytes * 1e-6;
        report_bytes(bench, bytes, speed.typical * scale, speed.average * scale, counts ? "M/s" : "MB/s");
    }
    end(&both);
}

void test_bandwidth(const struct bench *bench)
{
    speeds(bench, 0);
}

void test_rate(const struct bench *bench)
{
    speeds(bench, 1);
}
