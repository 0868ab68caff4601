/* The file at either end. */
#ifndef VRDMA_CP_FILE_H
#define VRDMA_CP_FILE_H

#include <stddef.h>
#include <stdint.h>

/* The data to send: a regular file, or a pattern of `size` bytes. */
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
 * The received data: bytes go into a file under a temporary name, so that nobody takes it for the whole one,
 * and the file gets its name when it is complete.
 */
struct sink {
    int folder; /* -1: bytes are dropped */
    int file;
    int replaces;
    char part[64];
};

int sink_open_folder(struct sink *sink, const char *folder, int replaces);
void sink_drop(struct sink *sink);
/* Begins a file; the name must have been checked. */
int sink_begin(struct sink *sink, const char *name);
int sink_write(struct sink *sink, uint64_t offset, const unsigned char *from, size_t bytes);
int sink_finish(struct sink *sink, const char *name);
/* Removes an unfinished file. */
void sink_abandon(struct sink *sink);
void sink_close(struct sink *sink);

#endif
