/* The operating system's memory, threads and time. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include "platform.h"
#ifdef __x86_64__
#include <cpuid.h>
#endif

typedef struct { void (*run)(void *); void *argument; } Begin;

/* Whether this processor has the instructions that functions compiled with PEXT use. */
EXPORT int has_pext(void);

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
#include <malloc.h>

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

/* A file cannot be mapped to addresses that are reserved: arrays stay in memory. */
int memory_map(void *at, size_t bytes, int file, size_t offset) { (void)at; (void)bytes; (void)file; (void)offset; return 0; }
int file_grow(int file, size_t bytes) { (void)file; (void)bytes; return 0; }
void file_close(int file) { (void)file; }
void *aligned_new(size_t bytes) { return _aligned_malloc(bytes, 64); }
void aligned_free(void *at) { _aligned_free(at); }

static DWORD WINAPI begun(void *begin)
{
    Begin b = *(Begin *)begin;
    free(begin);
    b.run(b.argument);
    return 0;
}

int thread_begin(Thread *thread, void (*run)(void *), void *argument)
{
    Begin *b = malloc(sizeof *b);
    if (!b) return 0;
    *b = (Begin){ run, argument };
    thread->handle = (uintptr_t)CreateThread(0, 0, begun, b, 0, 0);
    if (!thread->handle) free(b);
    return thread->handle != 0;
}

void thread_end(Thread thread)
{
    WaitForSingleObject((HANDLE)thread.handle, INFINITE);
    CloseHandle((HANDLE)thread.handle);
}

void thread_yield(void) { SwitchToThread(); }
void thread_pause(void) { Sleep(1); }

double seconds(void)
{
    LARGE_INTEGER now, each;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&each);
    return (double)now.QuadPart / (double)each.QuadPart;
}
#else
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>
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

void file_close(int file) { close(file); }

void *aligned_new(size_t bytes)
{
    void *at;
    return posix_memalign(&at, 64, bytes) ? 0 : at;
}

void aligned_free(void *at) { free(at); }

_Static_assert(sizeof(pthread_t) <= sizeof(uintptr_t), "a Thread holds a pthread_t");

static void *begun(void *begin)
{
    Begin b = *(Begin *)begin;
    free(begin);
    b.run(b.argument);
    return 0;
}

int thread_begin(Thread *thread, void (*run)(void *), void *argument)
{
    pthread_t made;
    Begin *b = malloc(sizeof *b);
    if (!b) return 0;
    *b = (Begin){ run, argument };
    if (pthread_create(&made, 0, begun, b)) { free(b); return 0; }
    thread->handle = (uintptr_t)made;
    return 1;
}

void thread_end(Thread thread) { pthread_join((pthread_t)thread.handle, 0); }
void thread_yield(void) { sched_yield(); }
void thread_pause(void) { usleep(100); }

double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
#endif

EXPORT int has_pext(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 8 & 1;
#elif defined(_M_X64)
    int found[4];
    __cpuidex(found, 7, 0);
    return found[1] >> 8 & 1;
#else
    return 0;
#endif
}
