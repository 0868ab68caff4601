#include "search.h"

#include <stdlib.h>
#include <string.h>

void tree_start(struct tree *tree, const struct graph *graph, uint64_t root)
{
    tree->root = root;
    tree->parents = memory(graph->bench, graph->locals * sizeof *tree->parents);
    tree->levels = memory(graph->bench, graph->locals * sizeof *tree->levels);
    for (uint64_t i = 0; i < graph->locals; i++)
        tree->parents[i] = tree->levels[i] = NOBODY;
}

void tree_free(struct tree *tree)
{
    free(tree->parents);
    free(tree->levels);
}

/* The local vertices of one level. */
struct frontier {
    uint64_t *locals;
    uint64_t count;
};

static void reach(struct tree *tree, struct frontier *frontier, uint64_t local, uint64_t parent, uint64_t level)
{
    if (tree->parents[local] != NOBODY)
        return;
    tree->parents[local] = parent;
    tree->levels[local] = level;
    frontier->locals[frontier->count++] = local;
}

/* Sends pairs (vertex, parent) to the vertex' owner. */
static void tell_neighbours(const struct graph *graph, const struct frontier *frontier, struct mail *mail)
{
    for (uint64_t i = 0; i < frontier->count; i++) {
        uint64_t local = frontier->locals[i];
        for (uint64_t n = graph->first[local]; n < graph->first[local + 1]; n++) {
            uint64_t neighbour = graph->neighbours[n];
            mail_add(mail, owner_of(graph, neighbour), neighbour);
            mail_add(mail, owner_of(graph, neighbour), global_of(graph, local));
        }
    }
    mail_exchange(mail);
}

void search(const struct graph *graph, struct tree *tree)
{
    /* A vertex is reached once, so all levels together fit. */
    struct frontier frontier = {.locals = memory(graph->bench, graph->locals * sizeof *frontier.locals)};
    struct mail mail;
    mail_start(&mail, graph->bench);
    if (owner_of(graph, tree->root) == graph->bench->rank)
        reach(tree, &frontier, local_of(graph, tree->root), tree->root, 0);
    uint64_t alive = 1;
    for (uint64_t level = 1; alive > 0; level++) {
        tell_neighbours(graph, &frontier, &mail);
        frontier.count = 0;
        for (uint64_t i = 0; i < mail.came_count; i += 2)
            reach(tree, &frontier, local_of(graph, mail.came[i]), mail.came[i + 1], level);
        MPI_Allreduce(&frontier.count, &alive, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    mail_free(&mail);
    free(frontier.locals);
}
