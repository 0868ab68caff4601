/* Messages for the user of the program. */
#ifndef VRDMA_CP_SAY_H
#define VRDMA_CP_SAY_H

/* Prints a line on standard error; returns -1, so that callers can fail with it. */
int say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, followed by the reason in errno. */
int say_errno(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
