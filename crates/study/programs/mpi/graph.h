/*
 * A Kronecker graph as Graph500 makes it, spread over the ranks: vertex v belongs to rank v % ranks, where its
 * local number is v / ranks. Each edge is kept by the ranks of both of its ends.
 */
#ifndef VRDMA_MPI_GRAPH_H
#define VRDMA_MPI_GRAPH_H

#include "bench.h"

struct graph {
    const struct bench *bench;
    uint64_t vertices;
    /* Vertices of this rank. Neighbours of local vertex i are neighbours[first[i]] to neighbours[first[i + 1] - 1]. */
    uint64_t locals;
    uint64_t *first;
    uint64_t *neighbours;
};

void graph_make(struct graph *graph, const struct bench *bench);
void graph_free(struct graph *graph);

int owner_of(const struct graph *graph, uint64_t vertex);
uint64_t local_of(const struct graph *graph, uint64_t vertex);
uint64_t global_of(const struct graph *graph, uint64_t local);

/* Random bits that depend only on seed and position, so that every rank can make its own part. */
uint64_t random_bits(uint64_t seed, uint64_t position);

/* Words for other ranks, collected and then exchanged by all ranks at once. */
struct mail {
    const struct bench *bench;
    /* For each rank: collected words, their number, and the room for them. */
    uint64_t **words;
    uint64_t *counts, *rooms;
    /* Received words, in the order of the ranks. */
    uint64_t *came;
    uint64_t came_count;
};

void mail_start(struct mail *mail, const struct bench *bench);
void mail_add(struct mail *mail, int rank, uint64_t word);
/* Exchanges and removes the collected words; every rank must call it. */
void mail_exchange(struct mail *mail);
void mail_free(struct mail *mail);

#endif
