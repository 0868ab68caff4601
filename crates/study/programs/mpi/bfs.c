/*
 * Breadth-first search from several roots of one graph. The figure is the seconds of a search; a separate line has
 * the edges of the searched part a second. Every tree is validated, outside the measured time.
 */
#include <stdio.h>
#include <stdlib.h>

#include "search.h"

enum { ROOT_SEED = 5 };

/* Number of edges between reached vertices, of all ranks; each was counted at both ends. */
static uint64_t edges_reached(const struct graph *graph, const struct tree *tree)
{
    uint64_t own = 0, all;
    for (uint64_t i = 0; i < graph->locals; i++)
        if (tree->parents[i] != NOBODY)
            own += graph->first[i + 1] - graph->first[i];
    MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return all / 2;
}

static int has_neighbours(const struct graph *graph, uint64_t vertex)
{
    int own = 0, any;
    if (owner_of(graph, vertex) == graph->bench->rank) {
        uint64_t local = local_of(graph, vertex);
        own = graph->first[local + 1] > graph->first[local];
    }
    MPI_Allreduce(&own, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    return any;
}

/* The next vertex with neighbours in a sequence of random ones; all ranks find the same. */
static uint64_t next_root(const struct graph *graph, uint64_t *draws)
{
    for (;;) {
        uint64_t vertex = random_bits(ROOT_SEED, (*draws)++) % graph->vertices;
        if (has_neighbours(graph, vertex))
            return vertex;
        if (*draws > 1000 * graph->vertices)
            fail(graph->bench, "bfs: the graph has no edges");
    }
}

void test_bfs(const struct bench *bench)
{
    int roots = bench->options.roots;
    double *times = memory(bench, (size_t)roots * sizeof *times);
    double *speeds = memory(bench, (size_t)roots * sizeof *speeds);
    struct graph graph;
    graph_make(&graph, bench);
    uint64_t draws = 0;
    for (int i = 0; i < roots; i++) {
        struct tree tree;
        tree_start(&tree, &graph, next_root(&graph, &draws));
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        search(&graph, &tree);
        double own = MPI_Wtime() - start;
        MPI_Allreduce(&own, &times[i], 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        speeds[i] = (double)edges_reached(&graph, &tree) / times[i] / 1e6;
        validate(&graph, &tree);
        tree_free(&tree);
    }
    double average = mean(times, roots), speed = mean(speeds, roots);
    report(bench, "-", median(times, roots), average, "s");
    if (bench->rank == 0)
        printf("edges a second: %.6g MTEPS mean %.6g\n", median(speeds, roots), speed);
    graph_free(&graph);
    free(times);
    free(speeds);
}
