#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"

void mail_start(struct mail *mail, const struct bench *bench)
{
    size_t ranks = (size_t)bench->ranks;
    *mail = (struct mail){.bench = bench};
    mail->words = memory(bench, ranks * sizeof *mail->words);
    mail->counts = memory(bench, ranks * sizeof *mail->counts);
    mail->rooms = memory(bench, ranks * sizeof *mail->rooms);
    memset(mail->words, 0, ranks * sizeof *mail->words);
    memset(mail->counts, 0, ranks * sizeof *mail->counts);
    memset(mail->rooms, 0, ranks * sizeof *mail->rooms);
}

void mail_add(struct mail *mail, int rank, uint64_t word)
{
    if (mail->counts[rank] == mail->rooms[rank]) {
        uint64_t room = mail->rooms[rank] == 0 ? 1024 : 2 * mail->rooms[rank];
        uint64_t *more = realloc(mail->words[rank], room * sizeof *more);
        if (more == NULL)
            fail(mail->bench, "no memory for edges: choose a smaller --scale or more ranks");
        mail->words[rank] = more;
        mail->rooms[rank] = room;
    }
    mail->words[rank][mail->counts[rank]++] = word;
}

/* Computes the place of each rank's words in one array, as MPI needs it; returns their number. */
static uint64_t lay_out(const struct bench *bench, const uint64_t *counts, int *lengths, int *offsets)
{
    uint64_t sum = 0;
    for (int rank = 0; rank < bench->ranks; rank++) {
        if (sum > INT_MAX || counts[rank] > INT_MAX)
            fail(bench, "too many edges for one exchange: choose a smaller --scale");
        offsets[rank] = (int)sum;
        lengths[rank] = (int)counts[rank];
        sum += counts[rank];
    }
    return sum;
}

static uint64_t *in_one_row(struct mail *mail, uint64_t sum, const int *offsets)
{
    uint64_t *row = memory(mail->bench, sum * sizeof *row);
    for (int rank = 0; rank < mail->bench->ranks; rank++)
        if (mail->counts[rank] > 0)
            memcpy(row + offsets[rank], mail->words[rank], mail->counts[rank] * sizeof *row);
    return row;
}

void mail_exchange(struct mail *mail)
{
    const struct bench *bench = mail->bench;
    size_t ranks = (size_t)bench->ranks;
    int *numbers = memory(bench, 4 * ranks * sizeof *numbers);
    int *out_lengths = numbers, *out_offsets = numbers + ranks;
    int *in_lengths = numbers + 2 * ranks, *in_offsets = numbers + 3 * ranks;
    uint64_t *coming = memory(bench, ranks * sizeof *coming);
    MPI_Alltoall(mail->counts, 1, MPI_UINT64_T, coming, 1, MPI_UINT64_T, MPI_COMM_WORLD);
    uint64_t sum = lay_out(bench, mail->counts, out_lengths, out_offsets);
    uint64_t *row = in_one_row(mail, sum, out_offsets);
    mail->came_count = lay_out(bench, coming, in_lengths, in_offsets);
    free(mail->came);
    mail->came = memory(bench, mail->came_count * sizeof *mail->came);
    MPI_Alltoallv(row, out_lengths, out_offsets, MPI_UINT64_T, mail->came, in_lengths, in_offsets, MPI_UINT64_T,
                  MPI_COMM_WORLD);
    memset(mail->counts, 0, ranks * sizeof *mail->counts);
    free(row);
    free(coming);
    free(numbers);
}

void mail_free(struct mail *mail)
{
    for (int rank = 0; rank < mail->bench->ranks; rank++)
        free(mail->words[rank]);
    free(mail->words);
    free(mail->counts);
    free(mail->rooms);
    free(mail->came);
}
