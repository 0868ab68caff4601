/* Sentences for whoever started the program. */
#ifndef VRDMA_CP_SAY_H
#define VRDMA_CP_SAY_H

/* One line on standard error; returns -1, so that callers fail with it. */
int say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, with the reason of errno behind it. */
int say_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
