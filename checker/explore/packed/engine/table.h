/* The table. */

static inline u64 hash_of(const u64 *s)
{
    u64 h = s[0];
    h ^= h >> 32; h *= 0x9E3779B97F4A7C15ULL;
    for (int w = 1; w < W; w++) { h ^= h >> 29; h += s[w]; h *= 0xBF58476D1CE4E5B9ULL; }
    h ^= h >> 29; h *= 0x94D049BB133111EBULL;
    return h ^ h >> 32;
}

/* By the upper half of a hash, which is what entries without a key keep of it. */
static inline u64 slot_of(const Engine *e, u64 h) { return (h >> 32) * e->slots >> 32; }

/* The number of a state, or NONE; where numbers are not kept, 0. `free` is then the slot to put it in. */
static inline u32 find(const Engine *e, const u64 *s, u64 h, u64 *free)
{
    const u64 *table = ITEMS(e->table, u64);
    u64 i = slot_of(e, h);
#if W == 1
    if (e->keyed) {
        for (;;) {
            u64 x = LOAD(&table[i], ACQUIRE);
            if (x == s[0]) return 0;
            if (!x) { *free = i; return NONE; }
            if (++i == e->slots) i = 0;
        }
    }
#endif
    u32 tag = (u32)(h >> 32);
    for (;;) {
        u64 x = LOAD(&table[i], ACQUIRE);
        if (!x) { *free = i; return NONE; }
        if ((u32)(x >> 32) == tag) {
            u32 n = (u32)x - 1;
            const u64 *other = STATE(e, n);
            int same = 1;
            for (int w = 0; w < W; w++) same &= other[w] == s[w];
            if (same) return n;
        }
        if (++i == e->slots) i = 0;
    }
}

/* Asks memory for the state that `find` will compare with one of this hash. */
static inline void fetch_state(const Engine *e, u64 h)
{
    const u64 *table = ITEMS(e->table, u64);
    u64 x, i = slot_of(e, h);
    while ((x = LOAD(&table[i], RELAXED)) && x >> 32 != h >> 32) if (++i == e->slots) i = 0;
    if (x) FETCH(STATE(e, (u32)x - 1));
}

static inline u64 entry(const Engine *e, const u64 *s, u64 h, u32 n)
{
    return e->keyed ? s[0] : h >> 32 << 32 | (n + 1);
}

/* The hash of an entry, as far as its slot goes. */
static inline u64 hash_in(const Engine *e, u64 entry)
{
    u64 state[W] = { entry };
    return e->keyed ? hash_of(state) : entry;
}

static void put(Engine *e, u64 entry, u64 h)
{
    u64 *table = ITEMS(e->table, u64), i = slot_of(e, h);
    while (table[i]) if (++i == e->slots) i = 0;
    table[i] = entry;
}

/* A table of all states. */
static int table_new(Engine *e, u64 slots)
{
    pool_free(&e->table);
    if (!pool_room(&e->table, slots * sizeof(u64))) return 0;
    e->slots = slots;
    for (u64 n = 0; n < e->count; n++) {
        u64 h = hash_of(STATE(e, n));
        put(e, entry(e, STATE(e, n), h, (u32)n), h);
    }
    return 1;
}

/* A larger table in the place of the old one. Entries lie in the order of their hashes, but for those that found their
 * place taken; so they move up from the last to the first, and memory is gone through in its order. */
static int table_grow(Engine *e, u64 slots)
{
    u64 before = e->slots;
    Pool late = { 0 };
    if (!pool_room(&e->table, slots * sizeof(u64))) return 0;
    e->slots = slots;
    u64 *table = ITEMS(e->table, u64);
    for (u64 i = before; i-- > 0;) {
        u64 x = table[i];
        if (!x) continue;
        table[i] = 0;
        u64 at = slot_of(e, hash_in(e, x));
        if (at < i) at = slots;         /* it would stand among those that are still to move */
        while (at < slots && table[at]) at++;
        if (at < slots) table[at] = x;
        else if (!PUSH(late, u64, x)) return 0;
    }
    for (u64 i = 0; i < COUNT(late, u64); i++) {
        u64 x = ITEMS(late, u64)[i];
        put(e, x, hash_in(e, x));
    }
    pool_free(&late);
    return 1;
}

/* Whether so many faults are left: 8 bits for each kind, of which the upper one is free. */
static inline int affords(u64 left, u64 cost) { return (((left | GUARDS) - cost) & GUARDS) == GUARDS; }

static int label_add(Engine *e, u32 state, u64 left, u32 parent)
{
    if (!e->kinds) return PUSH(e->parents, u32, parent);
    u32 *first = ITEMS(e->first_label, u32), *last = ITEMS(e->last_label, u32), *next = ITEMS(e->label_next, u32);
    u64 *lefts = ITEMS(e->lefts, u64);
    for (u32 n = first[state]; n != NONE; n = next[n])
        if (affords(lefts[n], left)) return 1;
    u32 n = (u32)COUNT(e->parents, u32);
    if (COUNT(e->parents, u32) >= NONE) return 0;      /* there is no number for it */
    if (first[state] == NONE) first[state] = n; else next[last[state]] = n;
    last[state] = n;
    if (!shared_room(e, &e->label_states, sizeof(u32)) || !shared_room(e, &e->lefts, sizeof(u64))) return 0;
    return PUSH(e->parents, u32, parent) && PUSH(e->label_states, u32, state) && PUSH(e->label_next, u32, NONE)
        && PUSH(e->lefts, u64, left);
}

/* Room for one more state, and for labels and edges that follow at once. */
static int room(Engine *e)
{
    if (e->count >= NONE) return 0;     /* there is no number for it */
    if (4 * (e->count + 1) > 3 * e->slots) {
        u64 slots = !e->slots ? 1 << 14 : e->slots < LEAPING ? 2 * e->slots : e->slots + e->slots / 3;
        hold(e);
        int had = e->slots ? table_grow(e, slots) : table_new(e, slots);
        let_go(e);
        if (!had) return 0;
    }
    return shared_room(e, &e->states, W * sizeof(u64));
}

static u32 visit(Engine *e, const u64 *s, u64 h, u64 at)
{
    u32 n = (u32)e->count++;
    memcpy(STATE(e, n), s, W * sizeof(u64));
    e->states.used += W * sizeof(u64);
    STORE(&ITEMS(e->table, u64)[at], entry(e, s, h, n), RELEASE);
    if (e->kinds && !(shared_room(e, &e->first_label, sizeof(u32)) && PUSH(e->first_label, u32, NONE) && PUSH(e->last_label, u32, NONE))) return NONE;
    return n;
}

/* Puts a state in that is not known, in the slot that `find` gave for it: its number, or NONE: no memory. */
static inline u32 insert(Engine *e, const u64 *s, u64 h, u64 at)
{
    u64 slots = e->slots;
    if (!room(e)) return NONE;
    if (e->slots != slots) find(e, s, h, &at);
    return visit(e, s, h, at);
}

/* A first state: its number, or NONE where it is known; its claims are asked by `search`. */
PUBLIC(u32, add_first)(Engine *e, const u64 *s, u64 left)
{
    u64 at = 0, h = hash_of(s);
    if (!room(e)) return NONE;
    if (find(e, s, h, &at) != NONE) return NONE;
    u32 n = visit(e, s, h, at);
    if (n == NONE) return NONE;
    return label_add(e, n, left, NONE) ? n : NONE;
}
