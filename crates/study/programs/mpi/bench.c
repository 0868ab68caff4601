#include "bench.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void fail(const struct bench *bench, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fprintf(stderr, "vrdma-mpi: rank %d: ", bench->rank);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

void *memory(const struct bench *bench, size_t bytes)
{
    void *found = NULL;
    if (posix_memalign(&found, 4096, bytes > 0 ? bytes : 1) != 0)
        fail(bench, "no memory for %zu bytes", bytes);
    return found;
}

static uint64_t word(uint64_t seed, uint64_t index)
{
    uint64_t mixed = (seed + 1) * 0x9e3779b97f4a7c15 + index * 0xbf58476d1ce4e5b9;
    return mixed ^ mixed >> 29;
}

void fill(unsigned char *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i += 8) {
        uint64_t value = word(seed, i);
        memcpy(bytes + i, &value, count - i < 8 ? count - i : 8);
    }
}

void check(const struct bench *bench, const unsigned char *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i += 8) {
        uint64_t value = word(seed, i);
        if (memcmp(bytes + i, &value, count - i < 8 ? count - i : 8) != 0)
            fail(bench, "%s of %" PRIu64 " bytes: wrong data from byte %" PRIu64 " on", bench->options.test, count, i);
    }
}

enum { LOOKS = 2000, NAP_NS = 20000 };

static void nap_until_all(int count, MPI_Request *requests)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    int done = 0;
    for (int looks = 0; !done; looks++) {
        if (looks > LOOKS)
            nanosleep(&nap, NULL);
        MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
    }
}

void wait_all(const struct bench *bench, int count, MPI_Request *requests)
{
    if (bench->options.naps)
        nap_until_all(count, requests);
    else
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
}

void send_to(const struct bench *bench, const void *bytes, uint64_t count, int rank)
{
    MPI_Request request;
    MPI_Isend(bytes, (int)count, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &request);
    wait_all(bench, 1, &request);
}

void receive_from(const struct bench *bench, void *bytes, uint64_t count, int rank)
{
    MPI_Request request;
    MPI_Irecv(bytes, (int)count, MPI_BYTE, rank, 0, MPI_COMM_WORLD, &request);
    wait_all(bench, 1, &request);
}

/* Short enough to begin together, and long enough to leave the processors to ranks that are still starting: a
 * millisecond would keep an emulated processor busy. */
enum { GATE_NAP_NS = 20000000, GATE_NAPS_MAX = 30000 };

static void nap_at_gate(void)
{
    const struct timespec nap = {.tv_nsec = GATE_NAP_NS};
    nanosleep(&nap, NULL);
}

static void gather_at_gate(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    for (MPI_Test(&request, &done, MPI_STATUS_IGNORE); !done; MPI_Test(&request, &done, MPI_STATUS_IGNORE))
        nap_at_gate();
}

static void wait_for_go(const struct bench *bench)
{
    char path[256];
    snprintf(path, sizeof path, "%s.ready", bench->options.gate);
    FILE *ready = fopen(path, "w");
    if (ready == NULL || fclose(ready) != 0)
        fail(bench, "cannot create %s", path);
    snprintf(path, sizeof path, "%s.go", bench->options.gate);
    for (int naps = 0; access(path, F_OK) != 0; naps++) {
        if (naps > GATE_NAPS_MAX)
            fail(bench, "nobody created %s", path);
        nap_at_gate();
    }
}

void wait_at_gate(const struct bench *bench)
{
    if (bench->options.gate == NULL)
        return;
    gather_at_gate();
    /* This rank is where mpirun is, and the gate's files are. */
    if (bench->rank == 0)
        wait_for_go(bench);
    gather_at_gate();
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, ascending);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double mean(const double *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

void report(const struct bench *bench, const char *size, double value, double mean, const char *unit)
{
    if (bench->rank != 0)
        return;
    if (bench->options.json)
        printf("{\"test\":\"%s\",\"ranks\":%d,\"size\":\"%s\",\"value\":%.6g,\"mean\":%.6g,\"unit\":\"%s\"}\n",
               bench->options.test, bench->ranks, size, value, mean, unit);
    else
        printf("figure %s %.6g %s mean %.6g\n", size, value, unit, mean);
    fflush(stdout);
}

void report_bytes(const struct bench *bench, uint64_t bytes, double value, double mean, const char *unit)
{
    char size[24];
    snprintf(size, sizeof size, "%" PRIu64, bytes);
    report(bench, size, value, mean, unit);
}

int warm_up(const struct bench *bench)
{
    return bench->options.iterations / 10 + 1;
}

int repetitions(const struct bench *bench, uint64_t bytes)
{
    uint64_t weight = bytes >> 16;
    int count = weight == 0 ? bench->options.iterations : (int)((uint64_t)bench->options.iterations / weight);
    return count > 10 ? count : 10;
}
