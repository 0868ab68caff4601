/* The file at either end. */
#ifndef VRDMA_CP_FILE_H
#define VRDMA_CP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* What is sent: a regular file, or a pattern of so many bytes. */
struct source {
    int file; /* -1: the pattern */
    uint64_t size;
    const char *name; /* the last part of the path */
};

int source_open(struct source *source, const char *path);
void source_pattern(struct source *source, uint64_t size);
int source_read(const struct source *source, uint64_t offset, unsigned char *to, size_t bytes);
void source_close(struct source *source);

/*
 * What is received: bytes go into a file without a name that others would take for the whole one, and
 * get their name when all are there.
 */
struct sink {
    int folder; /* -1: bytes are dropped */
    int file;
    int replaces;
    char part[64];
};

int sink_open_folder(struct sink *sink, const char *folder, int replaces);
void sink_drop(struct sink *sink);
/* The name has been found safe. */
int sink_begin(struct sink *sink, const char *name);
int sink_write(struct sink *sink, uint64_t offset, const unsigned char *from, size_t bytes);
int sink_finish(struct sink *sink, const char *name);
/* Takes away what was not finished. */
void sink_abandon(struct sink *sink);
void sink_close(struct sink *sink);

#endif
