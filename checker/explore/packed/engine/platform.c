/* The operating system's memory and time. */

#define _GNU_SOURCE
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <string.h>
#include <time.h>
#include "platform.h"
#ifdef __x86_64__
#include <cpuid.h>
#endif

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <malloc.h>
#include <windows.h>

void *memory_reserve(size_t bytes) { return VirtualAlloc(0, bytes, MEM_RESERVE, PAGE_NOACCESS); }
int memory_use(void *at, size_t bytes) { return VirtualAlloc(at, bytes, MEM_COMMIT, PAGE_READWRITE) != 0; }
void memory_large(void *at, size_t bytes) { (void)at; (void)bytes; }
void memory_free(void *at, size_t bytes) { (void)bytes; VirtualFree(at, 0, MEM_RELEASE); }

int memory_move(void *to, void *from, size_t used, size_t bytes)
{
    if (!memory_use(to, used)) return 0;
    memcpy(to, from, used);
    memory_free(from, bytes);
    return 1;
}

/* Windows cannot map a file to reserved addresses: search.py asks for none. */
int memory_map(void *at, size_t bytes, int file, size_t offset) { (void)at; (void)bytes; (void)file; (void)offset; return 0; }
int file_grow(int file, size_t bytes) { (void)file; (void)bytes; return 0; }
void *aligned_new(size_t bytes) { return _aligned_malloc(bytes, 64); }
void aligned_free(void *at) { _aligned_free(at); }
#else
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

/* They begin at a multiple of a large page. */
void *memory_reserve(size_t bytes)
{
    char *at = mmap(0, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    size_t before = (PAGE - (uintptr_t)at % PAGE) % PAGE;
    if (before) munmap(at, before);
    munmap(at + before + bytes, PAGE - before);
    return at + before;
}

int memory_use(void *at, size_t bytes) { return !mprotect(at, bytes, PROT_READ | PROT_WRITE); }

void memory_large(void *at, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    madvise(at, bytes, MADV_HUGEPAGE);
#else
    (void)at; (void)bytes;
#endif
}

void memory_free(void *at, size_t bytes) { munmap(at, bytes); }

int memory_move(void *to, void *from, size_t used, size_t bytes)
{
#ifdef MREMAP_FIXED
    if (mremap(from, used, used, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) return 0;
    if (bytes > used) munmap((char *)from + used, bytes - used);
#else
    if (!memory_use(to, used)) return 0;
    memcpy(to, from, used);
    munmap(from, bytes);
#endif
    return 1;
}

int memory_map(void *at, size_t bytes, int file, size_t offset)
{
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, (off_t)offset) != MAP_FAILED;
}

/* The room is taken now: a hole that cannot be filled later would end the process. */
int file_grow(int file, size_t bytes)
{
#ifdef __APPLE__
    off_t end = lseek(file, 0, SEEK_END);
    fstore_t more = { F_ALLOCATEALL, F_PEOFPOSMODE, 0, (off_t)bytes - end, 0 };
    return end >= (off_t)bytes || (fcntl(file, F_PREALLOCATE, &more) != -1 && !ftruncate(file, (off_t)bytes));
#else
    return !posix_fallocate(file, 0, (off_t)bytes);
#endif
}

void *aligned_new(size_t bytes)
{
    void *at;
    return posix_memalign(&at, 64, bytes) ? 0 : at;
}

void aligned_free(void *at) { free(at); }
#endif

/* Large arrays that are freed are given back to the system at once; else they would stay, as holes among others. */
EXPORT void give_back_large(void);

EXPORT void give_back_large(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 1 << 22);
#endif
}

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The digest of the text that this was compiled from; the loader compares it with that of the text beside it. */
EXPORT const char *engine_source(void);

EXPORT const char *engine_source(void)
{
    return ENGINE_SOURCE;
}

/* Whether this processor has the instructions that functions compiled with PEXT use. */
EXPORT int has_pext(void);

EXPORT int has_pext(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 8 & 1;
#else
    return 0;
#endif
}
