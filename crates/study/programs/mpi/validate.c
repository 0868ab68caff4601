#include <inttypes.h>

#include "search.h"

/* Edges that a rank asks about before it receives the answers. */
enum { BATCH = 1 << 16 };

static int is_neighbour(const struct graph *graph, uint64_t local, uint64_t vertex)
{
    for (uint64_t n = graph->first[local]; n < graph->first[local + 1]; n++)
        if (graph->neighbours[n] == vertex)
            return 1;
    return 0;
}

static void check_vertex(const struct graph *graph, const struct tree *tree, uint64_t local)
{
    uint64_t vertex = global_of(graph, local), parent = tree->parents[local], level = tree->levels[local];
    int is_root = vertex == tree->root;
    if ((parent == NOBODY) != (level == NOBODY) || (is_root && parent != vertex))
        fail(graph->bench, "bfs: vertex %" PRIu64 " has a level without a parent, or the root is lost", vertex);
    if (is_root != (level == 0))
        fail(graph->bench, "bfs: vertex %" PRIu64 " is on the root's level", vertex);
    if (parent != NOBODY && !is_root && !is_neighbour(graph, local, parent))
        fail(graph->bench, "bfs: vertex %" PRIu64 " has a parent that is no neighbour", vertex);
}

/* Sends triples: a neighbour, the level on this side of the edge, and whether the neighbour is the parent. */
static void tell_edges(const struct graph *graph, const struct tree *tree, struct mail *mail, uint64_t local)
{
    for (uint64_t n = graph->first[local]; n < graph->first[local + 1]; n++) {
        uint64_t neighbour = graph->neighbours[n];
        int owner = owner_of(graph, neighbour);
        mail_add(mail, owner, neighbour);
        mail_add(mail, owner, tree->levels[local]);
        mail_add(mail, owner, tree->parents[local] == neighbour);
    }
}

static void check_edge(const struct graph *graph, const struct tree *tree, const uint64_t *triple)
{
    uint64_t here = tree->levels[local_of(graph, triple[0])], there = triple[1];
    if ((here == NOBODY) != (there == NOBODY))
        fail(graph->bench, "bfs: an edge of vertex %" PRIu64 " leads out of the tree", triple[0]);
    if (here == NOBODY)
        return;
    if (here > there + 1 || there > here + 1)
        fail(graph->bench, "bfs: an edge of vertex %" PRIu64 " jumps over a level", triple[0]);
    if (triple[2] && there != here + 1)
        fail(graph->bench, "bfs: vertex %" PRIu64 " is a parent but not on the level above", triple[0]);
}

void validate(const struct graph *graph, const struct tree *tree)
{
    struct mail mail;
    mail_start(&mail, graph->bench);
    for (uint64_t local = 0; local < graph->locals; local++)
        check_vertex(graph, tree, local);
    uint64_t next = 0, left = 1;
    while (left > 0) {
        uint64_t told = 0;
        for (; next < graph->locals && told < BATCH; next++) {
            tell_edges(graph, tree, &mail, next);
            told += graph->first[next + 1] - graph->first[next];
        }
        mail_exchange(&mail);
        for (uint64_t i = 0; i < mail.came_count; i += 3)
            check_edge(graph, tree, mail.came + i);
        uint64_t own = graph->locals - next;
        MPI_Allreduce(&own, &left, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
    mail_free(&mail);
}
