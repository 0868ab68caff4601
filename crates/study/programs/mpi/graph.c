#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* Seeds of the graph, which is the same in every run. */
enum { EDGE_SEED = 2, NAME_SEED = 3 };

/* Edges that a rank makes before it sends them to their owners. */
enum { BATCH = 1 << 16 };

uint64_t random_bits(uint64_t seed, uint64_t position)
{
    uint64_t mixed = seed * 0xd1342543de82ef95 + (position + 1) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

int owner_of(const struct graph *graph, uint64_t vertex)
{
    return (int)(vertex % (uint64_t)graph->bench->ranks);
}

uint64_t local_of(const struct graph *graph, uint64_t vertex)
{
    return vertex / (uint64_t)graph->bench->ranks;
}

uint64_t global_of(const struct graph *graph, uint64_t local)
{
    return local * (uint64_t)graph->bench->ranks + (uint64_t)graph->bench->rank;
}

/* A permutation of the vertices: without it a vertex' number would tell how many neighbours it has. */
static uint64_t renamed(const struct graph *graph, uint64_t vertex)
{
    uint64_t mask = graph->vertices - 1;
    int half = (graph->bench->options.scale + 1) / 2;
    for (int round = 0; round < 3; round++) {
        vertex = (vertex * (random_bits(NAME_SEED, (uint64_t)round) | 1)) & mask;
        vertex ^= vertex >> half;
    }
    return vertex;
}

/* Graph500's initiator: quarters A, B, C and D with probabilities 0.57, 0.19, 0.19 and 0.05. */
static void kronecker(const struct graph *graph, uint64_t edge, uint64_t ends[2])
{
    uint64_t from = 0, to = 0;
    int scale = graph->bench->options.scale;
    for (int level = 0; level < scale; level++) {
        uint64_t draw = random_bits(EDGE_SEED, edge * (uint64_t)scale + (uint64_t)level) % 100;
        from = from << 1 | (draw >= 76);
        to = to << 1 | ((draw >= 57 && draw < 76) || draw >= 95);
    }
    ends[0] = renamed(graph, from);
    ends[1] = renamed(graph, to);
}

/* Pairs (local vertex, neighbour) in the order of arrival, grown batch by batch. */
struct edges {
    uint64_t *words;
    uint64_t count, room;
};

static void keep(const struct bench *bench, struct edges *edges, const struct mail *mail)
{
    uint64_t needed = edges->count + mail->came_count;
    if (needed > edges->room) {
        edges->room = 2 * needed;
        edges->words = realloc(edges->words, edges->room * sizeof *edges->words);
        if (edges->words == NULL)
            fail(bench, "no memory for edges: choose a smaller --scale or more ranks");
    }
    if (mail->came_count > 0)
        memcpy(edges->words + edges->count, mail->came, mail->came_count * sizeof *edges->words);
    edges->count = needed;
}

static void add_edge(const struct graph *graph, struct mail *mail, uint64_t edge)
{
    uint64_t ends[2];
    kronecker(graph, edge, ends);
    if (ends[0] == ends[1])
        return;
    for (int i = 0; i < 2; i++) {
        mail_add(mail, owner_of(graph, ends[i]), ends[i]);
        mail_add(mail, owner_of(graph, ends[i]), ends[1 - i]);
    }
}

static struct edges make_edges(const struct graph *graph)
{
    const struct bench *bench = graph->bench;
    struct edges edges = {0};
    struct mail mail;
    mail_start(&mail, bench);
    uint64_t all = graph->vertices * (uint64_t)bench->options.edge_factor;
    uint64_t of_batch = BATCH * (uint64_t)bench->ranks;
    for (uint64_t begin = 0; begin < all; begin += of_batch) {
        uint64_t stop = begin + of_batch < all ? begin + of_batch : all;
        for (uint64_t edge = begin + (uint64_t)bench->rank; edge < stop; edge += (uint64_t)bench->ranks)
            add_edge(graph, &mail, edge);
        mail_exchange(&mail);
        keep(bench, &edges, &mail);
    }
    mail_free(&mail);
    return edges;
}

/* Counts each vertex' neighbours, then stores them in their places. */
static void arrange(struct graph *graph, const struct edges *edges)
{
    const struct bench *bench = graph->bench;
    graph->first = memory(bench, (graph->locals + 1) * sizeof *graph->first);
    graph->neighbours = memory(bench, edges->count / 2 * sizeof *graph->neighbours);
    memset(graph->first, 0, (graph->locals + 1) * sizeof *graph->first);
    for (uint64_t i = 0; i < edges->count; i += 2)
        graph->first[local_of(graph, edges->words[i]) + 1]++;
    for (uint64_t i = 0; i < graph->locals; i++)
        graph->first[i + 1] += graph->first[i];
    uint64_t *next = memory(bench, (graph->locals + 1) * sizeof *next);
    memcpy(next, graph->first, (graph->locals + 1) * sizeof *next);
    for (uint64_t i = 0; i < edges->count; i += 2)
        graph->neighbours[next[local_of(graph, edges->words[i])]++] = edges->words[i + 1];
    free(next);
}

void graph_make(struct graph *graph, const struct bench *bench)
{
    uint64_t ranks = (uint64_t)bench->ranks, rank = (uint64_t)bench->rank;
    *graph = (struct graph){.bench = bench, .vertices = (uint64_t)1 << bench->options.scale};
    graph->locals = rank < graph->vertices ? (graph->vertices - rank + ranks - 1) / ranks : 0;
    struct edges edges = make_edges(graph);
    arrange(graph, &edges);
    free(edges.words);
}

void graph_free(struct graph *graph)
{
    free(graph->first);
    free(graph->neighbours);
}
