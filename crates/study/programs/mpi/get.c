/* One-sided: rank 0 reads memory of the last rank, which does nothing (passive target). A figure is the whole
 * round trip. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static double get_once(unsigned char *to, uint64_t bytes, int target, MPI_Win window)
{
    double start = MPI_Wtime();
    MPI_Get(to, (int)bytes, MPI_BYTE, target, 0, (int)bytes, MPI_BYTE, window);
    MPI_Win_flush(target, window);
    return MPI_Wtime() - start;
}

static void get_of(const struct bench *bench, unsigned char *to, uint64_t bytes, MPI_Win window)
{
    int target = bench->ranks - 1;
    int count = repetitions(bench, bytes);
    double *times = memory(bench, (size_t)count * sizeof *times);
    memset(to, 0, bytes);
    for (int i = -warm_up(bench); i < count; i++) {
        double time = get_once(to, bytes, target, window);
        if (i >= 0)
            times[i] = time * 1e6;
    }
    check(bench, to, bytes, (uint64_t)target);
    double average = mean(times, count);
    report_bytes(bench, bytes, median(times, count), average, "us");
    free(times);
}

void test_get(const struct bench *bench)
{
    uint64_t most = bench->options.most;
    unsigned char *to = memory(bench, most);
    unsigned char *shown;
    MPI_Win window;
    MPI_Win_allocate((MPI_Aint)most, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &shown, &window);
    fill(shown, most, (uint64_t)bench->rank);
    MPI_Win_lock_all(0, window);
    MPI_Win_sync(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (bench->rank == 0)
        for (uint64_t bytes = bench->options.least; bytes <= most; bytes *= 2)
            get_of(bench, to, bytes, window);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    free(to);
}
