/* Arrays that grow. */

/* `bytes` may be written, `used` hold something; so many bytes are `kept` for it to grow without moving. */
typedef struct { void *at; size_t bytes, used, kept; int file; } Pool;  /* `file`: its descriptor plus one, if it has one */

#define LARGE ((size_t)1 << 26)     /* bytes from which on a pool keeps room to grow, as large pages do not move well */

static int pool_move(Pool *p, size_t want)
{
    size_t kept = want < LARGE ? want : 16 * want;
    void *at = memory_reserve(kept);
    if (!at) at = memory_reserve(kept = want);
    if (!at) return 0;
    int moved = !p->at || (p->file ? memory_map(at, p->bytes, p->file - 1, 0) : memory_move(at, p->at, p->bytes, p->kept));
    if (!moved) { memory_free(at, kept); return 0; }
    if (p->at && p->file) memory_free(p->at, p->kept);
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
    size_t added = bytes - p->bytes;
    if (p->file && !file_grow(p->file - 1, bytes)) return 0;
    if (!(p->file ? memory_map(end, added, p->file - 1, p->bytes) : memory_use(end, added))) return 0;
    if (!p->file && bytes >= 8 * PAGE) memory_large(p->at, bytes);
    p->bytes = bytes;
    return 1;
}

static void pool_free(Pool *p)
{
    if (p->at) memory_free(p->at, p->kept);
    if (p->file) close(p->file - 1);
    memset(p, 0, sizeof *p);
}

#define ITEMS(p, type) ((type *)(p).at)
#define COUNT(p, type) ((p).used / sizeof(type))
#define PUSH(p, type, value) (pool_room(&(p), sizeof(type)) ? (ITEMS(p, type)[COUNT(p, type)] = (value), (p).used += sizeof(type), 1) : 0)
