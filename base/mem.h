/* The library's allocator: malloc with a switch that lets a test fail the n-th call.
 *
 * Every allocation of ours goes through here, so that "out of memory at the n-th allocation, for
 * every n" is a test and not a hope. What third-party libraries allocate is outside of it.
 * Any thread. Results are freed with mem_free. A zero size gives a non-NULL pointer.
 */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t size);
void *mem_calloc(size_t count, size_t size);           /* NULL also when count * size overflows */
void *mem_realloc(void *pointer, size_t size);         /* on NULL the old block is untouched */
void *mem_array_grow(void *pointer, size_t *capacity,  /* at least `needed` elements, doubling; */
                     size_t needed, size_t item_size); /* on NULL nothing has changed */
char *mem_strdup(const char *text);
void mem_free(void *pointer);

/* For an allocator of its own (base/pool.h): counts as a call, and says whether a test makes it fail. */
bool mem_is_denied(void);

/* Gives pages of freed memory back to the system; takes milliseconds. After a large structure went. */
void mem_trim(void);

/* Test hook, per thread: the n-th allocation from now (0 = the next) fails, and so do all after
 * it until mem_fail_never(). mem_fail_count() says how many calls were made since the last reset. */
void mem_fail_after(uint64_t n);
void mem_fail_never(void);
uint64_t mem_fail_count(void);

#endif
