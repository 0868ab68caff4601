/* vrdma-mpi: small MPI programs that measure and check what they receive. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char HELP[] =
    "vrdma-mpi TEST [OPTIONS]: measures MPI, and checks every result\n"
    "\n"
    "  latency     half a round trip between pairs of ranks, us\n"
    "  bandwidth   windows of 64 messages between pairs of ranks, MB/s of all pairs\n"
    "  rate        the same, millions of messages a second\n"
    "  get         one-sided MPI_Get from a passive target, round trip, us\n"
    "  bcast, allreduce, alltoall, allgather, barrier\n"
    "              collectives over all ranks, us for RANKSxBYTES\n"
    "  transfer    one large message, or several at once, s\n"
    "  bfs         Graph500-style breadth-first search of a Kronecker graph with validation, s\n"
    "\n"
    "  -s, --sizes LEAST:MOST  bytes, each size twice the one before (1:1M; K, M and G are powers of 1024)\n"
    "  -n, --iterations N      of small sizes; large ones have fewer (1000; 3 transfers)\n"
    "      --nap               wait by looking for a while and then sleeping between looks, not as MPI waits\n"
    "      --bytes BYTES       transfer: so many (1000000000)\n"
    "      --piece BYTES       transfer: of one message (all)\n"
    "      --pairs N           transfer: at once (1)\n"
    "      --name NAME         transfer: of the figure (1GB)\n"
    "      --gate PATH         transfer: when connected, create PATH.ready and wait for PATH.go\n"
    "      --scale N           bfs: 2^N vertices (14)\n"
    "      --edge-factor N     bfs: edges a vertex (16)\n"
    "      --roots N           bfs: searches (8)\n"
    "      --json              lines of JSON instead of `figure SIZE VALUE UNIT mean MEAN`\n"
    "\n"
    "A value is a median. Exit status: 0, or 1 when a result was wrong, or 2 for wrong options.\n";

static const struct {
    const char *name;
    void (*run)(const struct bench *);
} TESTS[] = {
    {"latency", test_latency},     {"bandwidth", test_bandwidth}, {"rate", test_rate},
    {"get", test_get},             {"bcast", test_bcast},         {"allreduce", test_allreduce},
    {"alltoall", test_alltoall},   {"allgather", test_allgather}, {"barrier", test_barrier},
    {"transfer", test_transfer},   {"bfs", test_bfs},
};

enum { NAP = 256, BYTES, PIECE, PAIRS, NAME, GATE, SCALE, EDGE_FACTOR, ROOTS, JSON };

static const struct option OPTIONS[] = {
    {"sizes", required_argument, NULL, 's'},
    {"iterations", required_argument, NULL, 'n'},
    {"nap", no_argument, NULL, NAP},
    {"bytes", required_argument, NULL, BYTES},
    {"piece", required_argument, NULL, PIECE},
    {"pairs", required_argument, NULL, PAIRS},
    {"name", required_argument, NULL, NAME},
    {"gate", required_argument, NULL, GATE},
    {"scale", required_argument, NULL, SCALE},
    {"edge-factor", required_argument, NULL, EDGE_FACTOR},
    {"roots", required_argument, NULL, ROOTS},
    {"json", no_argument, NULL, JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

/* Parses a size. MPI counts bytes in an int, and so do sizes here. 1 on success. */
static int take_number(const char **text, uint64_t most, uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long count = strtoull(*text, &end, 10);
    if (**text < '0' || **text > '9' || errno != 0)
        return 0;
    static const char UNITS[] = "KMG";
    const char *unit = *end != '\0' ? strchr(UNITS, *end) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - UNITS + 1) : 0;
    *text = end + (unit != NULL);
    *value = count << shift;
    return count <= most >> shift && count > 0;
}

static int whole_number(const char *text, uint64_t most, uint64_t *value)
{
    return take_number(&text, most, value) && *text == '\0';
}

static int small_number(const char *text, uint64_t most, int *value)
{
    uint64_t wide;
    if (!whole_number(text, most, &wide))
        return 0;
    *value = (int)wide;
    return 1;
}

static int sizes(const char *text, struct options *options)
{
    if (!take_number(&text, INT_MAX, &options->least) || *text++ != ':')
        return 0;
    return whole_number(text, INT_MAX, &options->most) && options->least <= options->most;
}

/* 1 on success. */
static int take_option(struct options *options, int option, const char *value)
{
    switch (option) {
    case 's': return sizes(value, options);
    case 'n': return small_number(value, 10000000, &options->iterations);
    case NAP: options->naps = 1; return 1;
    case BYTES: return whole_number(value, (uint64_t)1 << 40, &options->most);
    case PIECE: return whole_number(value, INT_MAX, &options->piece);
    case PAIRS: return small_number(value, 32, &options->pairs);
    case GATE: options->gate = value; return strlen(value) < 200;
    case NAME: options->name = value; return strlen(value) < 48;
    case SCALE: return small_number(value, 24, &options->scale);
    case EDGE_FACTOR: return small_number(value, 64, &options->edge_factor);
    case ROOTS: return small_number(value, 64, &options->roots);
    case JSON: options->json = 1; return 1;
    default: return 0;
    }
}

/* Sets defaults. A transfer is long, and its bytes are not a range of sizes. */
static void fill_in(struct options *options)
{
    int transfers = strcmp(options->test, "transfer") == 0;
    if (options->most == 0)
        options->most = transfers ? 1000000000 : 1 << 20;
    if (options->iterations == 0)
        options->iterations = transfers ? 3 : 1000;
    if (options->piece == 0 || options->piece > options->most)
        options->piece = options->most < INT_MAX ? options->most : 1 << 30;
}

static int parse(struct options *options, int count, char **words)
{
    int option;
    while ((option = getopt_long(count, words, "s:n:h", OPTIONS, NULL)) != -1)
        if (!take_option(options, option, optarg))
            return option == 'h' ? 0 : 2;
    if (optind != count - 1)
        return 2;
    options->test = words[optind];
    fill_in(options);
    return -1;
}

int main(int count, char **words)
{
    struct bench bench = {
        .options = {.least = 1, .pairs = 1, .name = "1GB", .scale = 14, .edge_factor = 16, .roots = 8}};
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &bench.ranks);
    opterr = bench.rank == 0;
    int status = parse(&bench.options, count, words);
    size_t known = sizeof TESTS / sizeof TESTS[0];
    for (size_t i = 0; status < 0 && i < known; i++)
        if (strcmp(bench.options.test, TESTS[i].name) == 0) {
            TESTS[i].run(&bench);
            status = 0;
            goto end;
        }
    if (bench.rank == 0)
        fputs(HELP, status == 0 ? stdout : stderr);
    status = status == 0 ? 0 : 2;
end:
    MPI_Finalize();
    return status;
}
