/* ASSERT states what the program guarantees itself; it is compiled into every build. It must never
 * depend on bytes from the disk, the wire, or a caller: those get an error code. */
#ifndef BASE_ASSERT_H
#define BASE_ASSERT_H

#define ASSERT(condition) \
    ((condition) ? (void)0 : assert_failed(#condition, __FILE__, __LINE__, __func__))

/* Writes one line to stderr and aborts: the state is wrong, and going on could lose data. */
_Noreturn void assert_failed(const char *condition, const char *file, int line,
                             const char *function);

#endif
