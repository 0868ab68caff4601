#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "say.h"
#include "wire.h"

int source_open(struct source *source, const char *path)
{
    struct stat facts;
    source->file = open(path, O_RDONLY | O_CLOEXEC);
    if (source->file < 0)
        return say_errno("%s", path);
    if (fstat(source->file, &facts) != 0 || !S_ISREG(facts.st_mode)) {
        close(source->file);
        return say("%s is no regular file", path);
    }
    const char *slash = strrchr(path, '/');
    source->name = slash == NULL ? path : slash + 1;
    source->size = (uint64_t)facts.st_size;
    return 0;
}

void source_pattern(struct source *source, uint64_t size)
{
    *source = (struct source){.file = -1, .size = size, .name = "pattern"};
}

/* Fills in words that encode their offset, so that a segment in a wrong place is found. */
static void fill_pattern(uint64_t offset, unsigned char *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = (offset + i) * 0x9e3779b97f4a7c15;
        memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
    }
}

int source_read(const struct source *source, uint64_t offset, unsigned char *to, size_t bytes)
{
    if (source->file < 0) {
        fill_pattern(offset, to, bytes);
        return 0;
    }
    while (bytes > 0) {
        ssize_t got = pread(source->file, to, bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return say_errno("%s", source->name);
        if (got == 0)
            return say("%s became shorter while it was sent", source->name);
        to += got;
        offset += (uint64_t)got;
        bytes -= (size_t)got;
    }
    return 0;
}

void source_close(struct source *source)
{
    if (source->file >= 0)
        close(source->file);
    source->file = -1;
}

int sink_open_folder(struct sink *sink, const char *folder, int replaces)
{
    *sink = (struct sink){.file = -1, .replaces = replaces};
    sink->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return sink->folder < 0 ? say_errno("%s", folder) : 0;
}

void sink_drop(struct sink *sink)
{
    *sink = (struct sink){.folder = -1, .file = -1};
}

int sink_begin(struct sink *sink, const char *name)
{
    static unsigned count;
    if (sink->folder < 0)
        return 0;
    if (!sink->replaces && faccessat(sink->folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        errno = EEXIST;
        return -1;
    }
    snprintf(sink->part, sizeof sink->part, ".vrdma-cp-%ld-%u.part", (long)getpid(), count++);
    int how = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    sink->file = openat(sink->folder, sink->part, how, 0644);
    return sink->file < 0 ? -1 : 0;
}

int sink_write(struct sink *sink, uint64_t offset, const unsigned char *from, size_t bytes)
{
    if (sink->folder < 0)
        return 0;
    while (bytes > 0) {
        ssize_t put = pwrite(sink->file, from, bytes, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        from += put;
        offset += (uint64_t)put;
        bytes -= (size_t)put;
    }
    return 0;
}

int sink_finish(struct sink *sink, const char *name)
{
    if (sink->folder < 0)
        return 0;
    int closed = close(sink->file);
    sink->file = -1;
    int named = closed;
    if (named == 0 && sink->replaces)
        named = renameat(sink->folder, sink->part, sink->folder, name);
    else if (named == 0)
        named = linkat(sink->folder, sink->part, sink->folder, name, 0);
    int reason = errno;
    /* After a rename there is nothing to remove. */
    (void)unlinkat(sink->folder, sink->part, 0);
    errno = reason;
    return named;
}

void sink_abandon(struct sink *sink)
{
    if (sink->file < 0)
        return;
    close(sink->file);
    sink->file = -1;
    (void)unlinkat(sink->folder, sink->part, 0);
}

void sink_close(struct sink *sink)
{
    sink_abandon(sink);
    if (sink->folder >= 0)
        close(sink->folder);
    sink->folder = -1;
}
