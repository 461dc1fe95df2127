/* Arrays that grow. */

/* `bytes` may be written, `used` hold something; so many bytes are `kept` for it to grow without moving. */
typedef struct { void *at; size_t bytes, used, kept; int file; } Pool;  /* `file`: its descriptor plus one, if it has one */

#define PAGE ((size_t)1 << 21)      /* a large one */
#define LARGE ((size_t)1 << 26)     /* bytes from which on a pool keeps room to grow, as large pages do not move well */

/* Addresses without memory, which begin at a multiple of a large page. */
static char *addresses_new(size_t bytes)
{
    char *at = mmap(0, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    size_t before = (PAGE - (uintptr_t)at % PAGE) % PAGE;
    if (before) munmap(at, before);
    munmap(at + before + bytes, PAGE - before);
    return at + before;
}

static int pool_move(Pool *p, size_t want)
{
    size_t kept = want < LARGE ? want : 16 * want;
    char *at = addresses_new(kept);
    if (!at) at = addresses_new(kept = want);
    if (!at) return 0;
    if (p->at && p->file) {
        if (mmap(at, p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->file - 1, 0) == MAP_FAILED) return 0;
        munmap(p->at, p->kept);
    }
    else if (p->at) {
#ifdef MREMAP_FIXED
        if (mremap(p->at, p->bytes, p->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED) { munmap(at, kept); return 0; }
        if (p->kept > p->bytes) munmap((char *)p->at + p->bytes, p->kept - p->bytes);
#else
        if (mprotect(at, p->bytes, PROT_READ | PROT_WRITE)) { munmap(at, kept); return 0; }
        memcpy(at, p->at, p->used); munmap(p->at, p->kept);
#endif
    }
    p->at = at; p->kept = kept;
    return 1;
}

static int pool_room(Pool *p, size_t more)
{
    size_t want = p->used + more, bytes = p->bytes;
    if (want <= bytes) return 1;
    bytes += bytes / 2;
    if (bytes < want) bytes = want;
    bytes = (bytes + PAGE - 1) & ~(PAGE - 1);
    if (bytes > p->kept && !pool_move(p, bytes)) return 0;
    char *end = (char *)p->at + p->bytes;
    if (p->file) {
        if (posix_fallocate(p->file - 1, 0, (off_t)bytes)       /* a hole that cannot be filled would end the process */
            || mmap(end, bytes - p->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->file - 1, (off_t)p->bytes) == MAP_FAILED)
            return 0;
        p->bytes = bytes;
        return 1;
    }
    if (mprotect(end, bytes - p->bytes, PROT_READ | PROT_WRITE)) return 0;
#ifdef MADV_HUGEPAGE
    if (bytes >= 8 * PAGE) madvise(p->at, bytes, MADV_HUGEPAGE);
#endif
    p->bytes = bytes;
    return 1;
}

static void pool_free(Pool *p)
{
    if (p->at) munmap(p->at, p->kept);
    if (p->file) close(p->file - 1);
    memset(p, 0, sizeof *p);
}

#define ITEMS(p, type) ((type *)(p).at)
#define COUNT(p, type) ((p).used / sizeof(type))
#define PUSH(p, type, value) (pool_room(&(p), sizeof(type)) ? (ITEMS(p, type)[COUNT(p, type)] = (value), (p).used += sizeof(type), 1) : 0)
