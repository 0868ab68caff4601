/* Parts that all tests share: options, waiting, printing, and ending when a result is wrong. */
#ifndef VRDMA_MPI_BENCH_H
#define VRDMA_MPI_BENCH_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

struct options {
    const char *test;
    /* Sizes from least to most, each twice the previous one. */
    uint64_t least, most;
    int iterations;
    /* Instead of MPI's own waiting: polls for a while, then sleeps between two polls. */
    int naps;
    int json;
    /* transfer: bytes of one message, number of pairs at once, and name of the figure. */
    uint64_t piece;
    int pairs;
    const char *name;
    /* transfer: prefix of files by which several runs are started at the same time; NULL for none. */
    const char *gate;
    /* bfs: logarithm of the vertices, edges a vertex, searches. */
    int scale, edge_factor, roots;
};

struct bench {
    struct options options;
    int rank, ranks;
};

/* Ends all ranks with status 1. */
void fail(const struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Allocates `bytes`; ends all ranks on failure. */
void *memory(const struct bench *bench, size_t bytes);

/* Fills in words that depend on size, seed and position. */
void fill(unsigned char *bytes, uint64_t count, uint64_t seed);
/* Ends all ranks if these are not the words of `seed`. */
void check(const struct bench *bench, const unsigned char *bytes, uint64_t count, uint64_t seed);

/* Reports that all ranks are ready and waits to be let in, at the last rank, where mpirun is started. */
void wait_at_gate(const struct bench *bench);

/* Waits for any number of requests, as the options say; so do the functions below. */
void wait_all(const struct bench *bench, int count, MPI_Request *requests);
void send_to(const struct bench *bench, const void *bytes, uint64_t count, int rank);
void receive_from(const struct bench *bench, void *bytes, uint64_t count, int rank);

/* The median of the values, which are sorted. */
double median(double *values, int count);
double mean(const double *values, int count);

/* Prints one line, by rank 0 only: `figure SIZE VALUE UNIT mean MEAN`, or the same as JSON. */
void report(const struct bench *bench, const char *size, double value, double mean, const char *unit);
void report_bytes(const struct bench *bench, uint64_t bytes, double value, double mean, const char *unit);

/* Number of repetitions before those that count. */
int warm_up(const struct bench *bench);
/* Fewer repetitions for sizes that take long. */
int repetitions(const struct bench *bench, uint64_t bytes);

void test_latency(const struct bench *bench);
void test_bandwidth(const struct bench *bench);
void test_rate(const struct bench *bench);
void test_get(const struct bench *bench);
void test_bcast(const struct bench *bench);
void test_allreduce(const struct bench *bench);
void test_alltoall(const struct bench *bench);
void test_allgather(const struct bench *bench);
void test_barrier(const struct bench *bench);
void test_transfer(const struct bench *bench);
void test_bfs(const struct bench *bench);

#endif
