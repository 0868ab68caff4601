/* A breadth-first search and its validation. */
#ifndef VRDMA_MPI_SEARCH_H
#define VRDMA_MPI_SEARCH_H

#include "graph.h"

static const uint64_t NOBODY = UINT64_MAX;

/* Parents and levels of the local vertices; a vertex that was not reached has the parent NOBODY. */
struct tree {
    uint64_t root;
    uint64_t *parents;
    uint64_t *levels;
};

void tree_start(struct tree *tree, const struct graph *graph, uint64_t root);
void tree_free(struct tree *tree);
void search(const struct graph *graph, struct tree *tree);

/* Ends all ranks unless the tree has these properties:
 *   the root is its own parent, on level 0, and no other vertex is;
 *   each other reached vertex has a reached neighbour on the level above as its parent;
 *   the ends of each edge are both reached or both not, and at most one level apart. */
void validate(const struct graph *graph, const struct tree *tree);

#endif
