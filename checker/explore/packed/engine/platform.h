/* The compiler's builtins under one name each, and the operating system's memory and time (platform.c).
 *
 * GCC and Clang on Linux and macOS, MinGW-w64 on Windows. */

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif
#define FETCH(at) __builtin_prefetch(at)
#define LOAD(at, order) __atomic_load_n(at, __ATOMIC_##order)
#define STORE(at, value, order) __atomic_store_n(at, value, __ATOMIC_##order)
#define BITS(x) ((uint32_t)__builtin_popcountll(x))
#define EXTRACT(x, mask) __builtin_ia32_pext_di(x, mask)
#define DEPOSIT(x, mask) __builtin_ia32_pdep_di(x, mask)

#define PAGE ((size_t)1 << 21)      /* a large one */

/* Memory. Sizes are multiples of PAGE. Functions return 0 where there is no more memory, or no room in a file. */
void *memory_reserve(size_t bytes);                                     /* addresses that cannot be used yet */
int memory_use(void *at, size_t bytes);                                 /* makes reserved addresses usable */
void memory_large(void *at, size_t bytes);                               /* had better be in large pages */
void memory_free(void *at, size_t bytes);                               /* all that was reserved */
int memory_move(void *to, void *from, size_t used, size_t bytes);       /* what is in use moves; `bytes` were reserved from there */
int memory_map(void *at, size_t bytes, int file, size_t offset);        /* reserved addresses show a part of a file */
int file_grow(int file, size_t bytes);
void *aligned_new(size_t bytes);                                        /* at a multiple of 64 */
void aligned_free(void *at);

double seconds(void);                                                   /* of a clock that only goes on */
