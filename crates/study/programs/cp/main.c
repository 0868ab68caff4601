/* vrdma-cp: copies a file to another host by RDMA. See wire.h for the protocol. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "transfer.h"

static const char HELP[] =
    "vrdma-cp: copies a file to another host by RDMA, and checks it\n"
    "\n"
    "  vrdma-cp --receive FOLDER [OPTIONS]     takes files into FOLDER until it is ended\n"
    "  vrdma-cp FILE HOST [OPTIONS]            sends FILE to the receiver on HOST\n"
    "\n"
    "  -p, --port PORT        of the receiver (18600)\n"
    "  -b, --bind ADDRESS     of the adapter on which the receiver listens (all)\n"
    "  -1, --once             receive one file; the exit status tells whether it came whole\n"
    "  -f, --force            replace files that are there already\n"
    "  -l, --limit BYTES      refuse larger files (1T; K, M, G and T are powers of 1024)\n"
    "      --discard          instead of --receive FOLDER: check the bytes and drop them\n"
    "      --pattern BYTES    instead of FILE: send so many bytes of a pattern\n"
    "  -s, --segment BYTES    of one RDMA write (1M; up to 4M; the smaller one of both ends holds)\n"
    "  -n, --slots N          segments under way (16; up to 64; the smaller one of both ends holds)\n"
    "      --poll             look for completions all the time instead of waiting for notifications\n"
    "  -t, --timeout SECONDS  give up when the other side does nothing for so long (30)\n"
    "      --json             print figures of each file as a line of JSON\n"
    "  -h, --help             this\n"
    "\n"
    "Exit status: 0 if all is well, 1 after an error, 2 for wrong options.\n";

enum { OPTION_DISCARD = 256, OPTION_PATTERN, OPTION_POLL, OPTION_JSON };

static const struct option OPTIONS[] = {
    {"receive", required_argument, NULL, 'r'},
    {"port", required_argument, NULL, 'p'},
    {"bind", required_argument, NULL, 'b'},
    {"once", no_argument, NULL, '1'},
    {"force", no_argument, NULL, 'f'},
    {"limit", required_argument, NULL, 'l'},
    {"discard", no_argument, NULL, OPTION_DISCARD},
    {"pattern", required_argument, NULL, OPTION_PATTERN},
    {"segment", required_argument, NULL, 's'},
    {"slots", required_argument, NULL, 'n'},
    {"poll", no_argument, NULL, OPTION_POLL},
    {"timeout", required_argument, NULL, 't'},
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct task {
    struct link_options link;
    const char *folder;
    const char *bind;
    const char *file;
    const char *host;
    uint64_t limit;
    uint64_t pattern;
    int discards, has_pattern, once, replaces, json;
};

/* 1 on success. */
static int number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    char *end;
    errno = 0;
    unsigned long long count = strtoull(text, &end, 10);
    static const char UNITS[] = "KMGT";
    const char *unit = *end != '\0' ? strchr(UNITS, *end) : NULL;
    unsigned shift = unit != NULL ? 10 * (unsigned)(unit - UNITS + 1) : 0;
    int whole = text[0] >= '0' && text[0] <= '9' && errno == 0 && end[unit != NULL] == '\0';
    if (!whole || count > UINT64_MAX >> shift || count << shift < least || count << shift > most) {
        say("%s is no number from %" PRIu64 " to %" PRIu64, text, least, most);
        return 0;
    }
    *value = count << shift;
    return 1;
}

static int small_number(const char *text, uint64_t most, uint32_t *value)
{
    uint64_t wide;
    if (!number(text, 1, most, &wide))
        return 0;
    *value = (uint32_t)wide;
    return 1;
}

/* 1 on success. */
static int take_option(struct task *task, int option, const char *value)
{
    uint32_t seconds;
    switch (option) {
    case 'r': task->folder = value; return 1;
    case 'p': task->link.port = value; return 1;
    case 'b': task->bind = value; return 1;
    case '1': task->once = 1; return 1;
    case 'f': task->replaces = 1; return 1;
    case 'l': return number(value, 0, INT64_MAX, &task->limit);
    case 's': return small_number(value, WIRE_MAX_SEGMENT, &task->link.segment);
    case 'n': return small_number(value, WIRE_MAX_SLOTS, &task->link.slots);
    case OPTION_DISCARD: task->discards = 1; return 1;
    case OPTION_PATTERN: task->has_pattern = 1; return number(value, 0, INT64_MAX, &task->pattern);
    case OPTION_POLL: task->link.polls = 1; return 1;
    case OPTION_JSON: task->json = 1; return 1;
    case 't':
        if (!small_number(value, 86400, &seconds))
            return 0;
        task->link.timeout_ms = (int)seconds * 1000;
        return 1;
    default: return 0;
    }
}

static void show(const struct task *task, const char *role, const struct link *link, const struct result *result)
{
    if (task->json)
        printf("{\"role\":\"%s\",\"bytes\":%" PRIu64 ",\"seconds\":%.6f,\"segment\":%u,\"slots\":%u,"
               "\"checksum\":\"%016" PRIx64 "\"}\n",
               role, result->bytes, result->seconds, link->ring.segment, link->ring.slots, result->checksum);
    else
        printf("%s %" PRIu64 " bytes in %.6f s (%.1f MB/s), CRC-64 %016" PRIx64 "\n", role, result->bytes,
               result->seconds, (double)result->bytes / result->seconds / 1e6, result->checksum);
    fflush(stdout);
}

static int send_file(const struct task *task)
{
    struct source source;
    struct link link;
    struct result result;
    if (task->has_pattern)
        source_pattern(&source, task->pattern);
    else if (source_open(&source, task->file) != 0)
        return 1;
    int outcome = link_connect(&link, &task->link, task->host);
    if (outcome == 0)
        outcome = transfer_send(&link, &source, &result);
    if (outcome == 0)
        show(task, "sent", &link, &result);
    link_close(&link);
    source_close(&source);
    return outcome == 0 ? 0 : 1;
}

static int receive_file(const struct task *task, struct rdma_cm_id *listener, struct sink *sink)
{
    struct link link;
    struct result result;
    int outcome = link_accept(&link, &task->link, listener);
    if (outcome == 0) {
        outcome = transfer_receive(&link, sink, task->limit, &result);
        if (outcome == 0)
            show(task, "received", &link, &result);
        else
            outcome = 1;
    }
    link_close(&link);
    return outcome;
}

static int receive_files(const struct task *task)
{
    struct sink sink;
    if (task->discards)
        sink_drop(&sink);
    else if (sink_open_folder(&sink, task->folder, task->replaces) != 0)
        return 1;
    struct rdma_cm_id *listener = link_listen(&task->link, task->bind);
    if (listener == NULL)
        return 1;
    int outcome;
    do
        outcome = receive_file(task, listener, &sink);
    while (outcome >= 0 && !task->once);
    struct rdma_event_channel *channel = listener->channel;
    rdma_destroy_id(listener);
    rdma_destroy_event_channel(channel);
    sink_close(&sink);
    return outcome == 0 ? 0 : 1;
}

int main(int count, char **words)
{
    struct task task = {
        .link = {.port = "18600", .slots = 16, .segment = 1 << 20, .timeout_ms = 30000},
        .limit = (uint64_t)1 << 40,
    };
    int option;
    while ((option = getopt_long(count, words, "r:p:b:1fl:s:n:t:h", OPTIONS, NULL)) != -1) {
        if (option == 'h') {
            fputs(HELP, stdout);
            return 0;
        }
        if (!take_option(&task, option, optarg))
            return 2;
    }
    int rest = count - optind;
    int receives = task.discards + (task.folder != NULL);
    if (receives == 1 && rest == 0 && !task.has_pattern)
        return receive_files(&task);
    if (receives == 0 && rest == (task.has_pattern ? 1 : 2)) {
        task.file = task.has_pattern ? NULL : words[optind];
        task.host = words[count - 1];
        return send_file(&task);
    }
    say("give --receive FOLDER, or FILE and HOST; --help tells the rest");
    return 2;
}
