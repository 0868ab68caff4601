#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int say(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    fputs("vrdma-cp: ", stderr);
    vfprintf(stderr, format, values);
    fputc('\n', stderr);
    va_end(values);
    return -1;
}

int say_errno(const char *format, ...)
{
    int reason = errno;
    va_list values;
    va_start(values, format);
    fputs("vrdma-cp: ", stderr);
    vfprintf(stderr, format, values);
    fprintf(stderr, ": %s\n", strerror(reason));
    va_end(values);
    return -1;
}
