/* Breadth-first search over packed states, by decision trees that are filled on demand.
 *
 * A state is W words of 64 bits; an atom is a field of bits in one of them. What may happen in a state, and what holds
 * in it, is looked up in decision trees: a node asks for one atom, its children are the atom's values, a leaf is the
 * answer. Where a tree has no answer yet, `search` returns to its caller, who works the answer out by the reference
 * semantics, hangs it in with `hang`, and calls again. Keys are the states themselves, never hashes of them.
 *
 * Compiled once for each number of words W. The top bit of the first word is set in every state, so that no state is 0.
 */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>
#ifdef __linux__
#include <sys/resource.h>
#endif

#ifdef __BMI2__
#include <immintrin.h>
#endif

#ifndef W
#define W 1
#endif

typedef uint64_t u64;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint16_t u16;
typedef uint8_t u8;

#define PRESENT ((u64)1 << 63)
#define RECENT 8192         /* states that were met last, told apart without the table: it is far away, they are near */
#define JOINT 12            /* bits of the states that parts see which are looked up together */
#define SETTLED 4096        /* labels after which the trees are taken to have been asked about most */
#define BLOCK 32            /* labels that are expanded together, so that memory is asked for ahead of its use */
#define GUARDS 0x8080808080808080ULL
#define NONE 0xffffffffu

enum { DONE, STEPS, CLAIM, FIRED, FAULT, PAUSE, AT_STATES, AT_DEPTH, NO_MEMORY };
enum { GATHER, EXPAND, CHECK, STUCK };
enum { OF_STATE, OF_STEP, OF_BOUNDS, OF_STUCK };

/* ---- growing arrays */

typedef struct { void *at; size_t bytes, used; } Pool;   /* `bytes` are mapped, `used` hold something */

/* Fresh bytes; many of them in large pages, which begin at multiples of their size. */
static void *bytes_new(size_t bytes)
{
    size_t page = 1 << 21;
    char *at = mmap(0, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return at;
    size_t before = (page - (uintptr_t)at % page) % page;
    if (before) munmap(at, before);
    munmap(at + before + bytes, page - before);
#ifdef MADV_HUGEPAGE
    if (bytes >= 8 * page) madvise(at + before, bytes, MADV_HUGEPAGE);
#endif
    return at + before;
}

static int pool_room(Pool *p, size_t more)
{
    size_t want = p->used + more, bytes = p->bytes;
    if (want <= bytes) return 1;
    bytes = bytes + bytes / 2;
    if (bytes < want) bytes = want;
    bytes = (bytes + 0x1fffff) & ~(size_t)0x1fffff;
    void *at;
    if (!p->at) at = bytes_new(bytes);
    else {
#ifdef MREMAP_MAYMOVE
        at = mremap(p->at, p->bytes, bytes, MREMAP_MAYMOVE);
#else
        at = bytes_new(bytes);
        if (at != MAP_FAILED) { memcpy(at, p->at, p->used); munmap(p->at, p->bytes); }
#endif
    }
    if (at == MAP_FAILED) return 0;
    p->at = at; p->bytes = bytes;
    return 1;
}

static void pool_free(Pool *p) { if (p->at) munmap(p->at, p->bytes); memset(p, 0, sizeof *p); }

#define ITEMS(p, type) ((type *)(p).at)
#define COUNT(p, type) ((p).used / sizeof(type))
#define PUSH(p, type, value) (pool_room(&(p), sizeof(type)) ? (ITEMS(p, type)[COUNT(p, type)] = (value), (p).used += sizeof(type), 1) : 0)

/* ---- what is searched */

typedef struct { u8 word, shift, bits; } Atom;
typedef struct { u32 root; i32 yes, no; } Test;             /* of a program; targets below 0 are -1: no, -2: yes */
typedef struct { u32 first, count, fault; } Leaf;           /* changes, and whether the specification is at fault */
typedef struct { u32 first_write, writes, first_claim, claims; u64 cost; u32 fault, tag; } Change;
typedef struct { u32 atom, code; } Write;
typedef struct { u32 probe; i32 program; } Claim;
typedef struct { u32 first, end, joined; u64 table, masks[W]; } Joint;  /* parts that are looked up together */

typedef struct {
    /* the layout */
    Pool atoms;                     /* Atom */
    /* decision trees: 0 unknown; odd: a leaf's number times two, plus one; even: where the node's children are, and
     * which bits choose among them. Before the children stands the atom. */
    Pool kids, trees;               /* u64; the trees' roots */
    Pool tests;                     /* Test */
    Pool leaves, members;           /* Leaf, and the numbers of their changes (u32) */
    Pool changes, writes, claims;   /* Change, Write, Claim */
    Pool masks;                     /* u64: of each change W words that it leaves, then W that it sets */
    Pool uses;                      /* u64: how often each change was made */
    u32 parts, classes;
    Pool joints, tables, joined;    /* Joint; u32, of each its leaves plus one; Leaf */
    u64 settled;                    /* the label from which on no tree has grown */
    Pool roots;                     /* u32: of each part, for each class of faults left, a tree */
    Pool on_states, on_stuck;       /* Claim: probes of every new state, and of states where nothing happens */
    Pool active;                    /* u8: of each probe */
    i32 bounds;                     /* program */
    u32 kinds;                      /* kinds of faults with a limit; 0: there is a label for each state, no more */
    u32 graph;                      /* whether edges are kept */
    /* what was found */
    Pool states;                    /* u64, W each */
    Pool table;                     /* u64: states (W is 1 and no number is asked for), or tag and number plus one */
    u64 slots, count;
    u32 keyed, brief;               /* whether what leads to a state that was met just now is only counted */
    Pool parents;                   /* u32: of each label the label before */
    Pool label_states, label_next, first_label, last_label;  /* u32 */
    Pool lefts;                     /* u64: of each label, 7 bits for each kind of fault */
    Pool begins;                    /* u64: of each label its first edge */
    Pool targets, edge_changes;     /* u32 */
    Pool level_states, level_labels;/* u64: how many there were when each level was begun */
    u64 generated, edges, cut, searched, level_end, depth;
    u64 limit_states, limit_depth, limit_labels;
    /* where the search stands */
    u32 phase, block, at_label, at_step, then, found;
    Pool heap, way;                 /* of the block: Step; u32, the leaves of each label */
    Pool cell_first, cell_states;   /* u32: of each combination that was surveyed, its first state, and how many */
    Pool cells, cell_masks;         /* of the survey: u32, where each combination is; u64, W words */
    u64 cell_slots;
    Pool between;                   /* u32: steps between combinations: from, to, tag */
    u32 begins_of[BLOCK + 1], way_of[BLOCK + 1];
    u8 faulty[BLOCK]; u32 fault_leaf[BLOCK], skipped[BLOCK];
    u64 recent[RECENT];
    /* what it asks for, or says */
    u32 what, part, class, test, probe, change, of;
    u64 label, number, marked;
    u64 words[W], target[W];
} Engine;

typedef struct { u64 hash; u32 change; u64 target[W]; } Step;

#define ATOM(e, n) (ITEMS((e)->atoms, Atom)[n])
#define STATE(e, n) (ITEMS((e)->states, u64) + (size_t)(n) * W)

Engine *engine_new(void)
{
    Engine *e = calloc(1, sizeof *e);
    if (!e) return 0;
    e->bounds = -2;
    e->limit_states = e->limit_depth = e->limit_labels = ~(u64)0;
    return e;
}

void engine_free(Engine *e)
{
    Pool *all[] = { &e->atoms, &e->kids, &e->trees, &e->tests, &e->leaves, &e->members, &e->changes, &e->writes, &e->claims,
        &e->masks, &e->uses, &e->roots, &e->on_states, &e->on_stuck, &e->active, &e->states, &e->table, &e->parents,
        &e->label_states, &e->label_next, &e->first_label, &e->last_label, &e->lefts, &e->begins, &e->targets,
        &e->edge_changes, &e->level_states, &e->level_labels, &e->joints, &e->tables, &e->joined, &e->heap, &e->way, &e->cell_first, &e->cell_states,
        &e->cells, &e->cell_masks, &e->between };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) pool_free(all[i]);
    free(e);
}

/* ---- trees */

static inline u64 node(u64 base, Atom a) { return base << 20 | (u64)a.word << 14 | (u64)a.shift << 8 | (u64)a.bits << 1; }

static inline u64 walk(const u64 *kids, u64 slot, const u64 *s)
{
    while (slot && !(slot & 1)) {
        u64 mask = ((u64)1 << (slot >> 1 & 127)) - 1;
#if W == 1
        slot = kids[(slot >> 20) + (s[0] >> (slot >> 8 & 63) & mask)];
#else
        slot = kids[(slot >> 20) + (s[slot >> 14 & 63] >> (slot >> 8 & 63) & mask)];
#endif
    }
    return slot;
}

/* Parts are no longer looked up together: a tree asks for more than it did. */
static void part_us(Engine *e) { e->joints.used = 0; if (~e->settled) e->settled = e->searched; }

/* A node without children that asks for an atom; 0: no memory. */
static u64 node_new(Engine *e, u32 atom)
{
    Atom a = ATOM(e, atom);
    u64 size = (u64)1 << a.bits;
    if (!pool_room(&e->kids, (size + 1) * sizeof(u64))) return 0;
    u64 base = COUNT(e->kids, u64) + 1;
    ITEMS(e->kids, u64)[base - 1] = atom;
    memset(ITEMS(e->kids, u64) + base, 0, size * sizeof(u64));
    e->kids.used += (size + 1) * sizeof(u64);
    return node(base, a);
}

/* A new tree without answers: its number. */
u32 tree_new(Engine *e) { return PUSH(e->trees, u64, 0) ? (u32)(COUNT(e->trees, u64) - 1) : NONE; }

/* Hangs an answer in: on the way from the root these atoms have these codes. 0: no memory; 2: the tree asks otherwise. */
int hang(Engine *e, u32 tree, u32 n, const u32 *atoms, const u32 *codes, u32 answer)
{
    u64 at = 0;             /* of the slot: in `kids`, but for the root */
    int root = 1;
    for (u32 i = 0; i < n; i++) {
        u64 slot = root ? ITEMS(e->trees, u64)[tree] : ITEMS(e->kids, u64)[at];
        if (!slot) {
            slot = node_new(e, atoms[i]);
            if (!slot) return 0;
            part_us(e);
            if (root) ITEMS(e->trees, u64)[tree] = slot; else ITEMS(e->kids, u64)[at] = slot;
        }
        else if (slot & 1 || ITEMS(e->kids, u64)[(slot >> 20) - 1] != atoms[i]) return 2;
        at = (slot >> 20) + codes[i];
        root = 0;
    }
    u64 *slot = root ? ITEMS(e->trees, u64) + tree : ITEMS(e->kids, u64) + at;
    u64 leaf = (u64)answer << 1 | 1;
    if (*slot && *slot != leaf) return 2;
    *slot = leaf;
    return 1;
}

/* ---- the parts of a model */

int add_test(Engine *e, u32 root, i32 yes, i32 no) { Test t = { root, yes, no }; return PUSH(e->tests, Test, t); }
int add_probe(Engine *e) { return PUSH(e->active, u8, 1); }
void silence(Engine *e, u32 probe) { ITEMS(e->active, u8)[probe] = 0; }

static void mask_of(const Engine *e, const Change *c, u64 *masks)
{
    for (int w = 0; w < W; w++) masks[w] = ~(u64)0, masks[W + w] = 0;
    for (u32 i = 0; i < c->writes; i++) {
        Write x = ITEMS(e->writes, Write)[c->first_write + i];
        Atom a = ATOM(e, x.atom);
        masks[a.word] &= ~((((u64)1 << a.bits) - 1) << a.shift);
        masks[W + a.word] |= (u64)x.code << a.shift;
    }
}

int add_change(Engine *e, u32 n, const u32 *atoms, const u32 *codes, u64 cost, u32 fault, u32 tag)
{
    Change c = { (u32)COUNT(e->writes, Write), n, 0, 0, cost, fault, tag };
    for (u32 i = 0; i < n; i++) {
        Write x = { atoms[i], codes[i] };
        if (!PUSH(e->writes, Write, x)) return 0;
    }
    if (!PUSH(e->changes, Change, c) || !PUSH(e->uses, u64, 0)) return 0;
    if (!pool_room(&e->masks, 2 * W * sizeof(u64))) return 0;
    mask_of(e, &c, ITEMS(e->masks, u64) + COUNT(e->masks, u64));
    e->masks.used += 2 * W * sizeof(u64);
    return 1;
}

/* The claims about steps of the newest change. */
int add_claim(Engine *e, u32 probe, i32 program)
{
    Change *c = ITEMS(e->changes, Change) + COUNT(e->changes, Change) - 1;
    if (!c->claims) c->first_claim = (u32)COUNT(e->claims, Claim);
    Claim x = { probe, program };
    c->claims++;
    return PUSH(e->claims, Claim, x);
}

int add_leaf(Engine *e, u32 n, const u32 *changes, u32 fault)
{
    Leaf x = { (u32)COUNT(e->members, u32), n, fault };
    for (u32 i = 0; i < n; i++) if (!PUSH(e->members, u32, changes[i])) return 0;
    return PUSH(e->leaves, Leaf, x);
}

int watch(Engine *e, u32 of, u32 probe, i32 program)
{
    Claim x = { probe, program };
    return of == OF_STATE ? PUSH(e->on_states, Claim, x) : PUSH(e->on_stuck, Claim, x);
}

void set_bounds(Engine *e, i32 program) { e->bounds = program; }

int set_parts(Engine *e, u32 parts, u32 kinds, u32 graph, u32 brief, const u32 *roots)
{
    e->parts = parts; e->kinds = kinds; e->classes = 1u << kinds; e->graph = graph;
    e->keyed = W == 1 && !graph && !kinds;
    e->brief = e->keyed && brief && e->bounds == -2;
    memset(e->recent, 0, sizeof e->recent);
    for (u32 i = 0; i < parts * e->classes; i++) if (!PUSH(e->roots, u32, roots[i])) return 0;
    return 1;
}

void set_limits(Engine *e, u64 states, u64 depth, u64 labels)
{
    e->limit_states = states; e->limit_depth = depth; e->limit_labels = labels;
}

/* ---- the table */

static inline u64 hash_of(const u64 *s)
{
    u64 h = s[0];
    h ^= h >> 32; h *= 0x9E3779B97F4A7C15ULL;
    for (int w = 1; w < W; w++) { h ^= h >> 29; h += s[w]; h *= 0xBF58476D1CE4E5B9ULL; }
    h ^= h >> 29; h *= 0x94D049BB133111EBULL;
    return h ^ h >> 32;
}

static inline u64 slot_of(const Engine *e, u64 h) { return (u64)(((unsigned __int128)h * e->slots) >> 64); }

/* The number of a state, or NONE; where numbers are not kept, 0. `free` is then the slot to put it in. */
static inline u32 find(const Engine *e, const u64 *s, u64 h, u64 *free)
{
    const u64 *table = ITEMS(e->table, u64);
    u64 i = slot_of(e, h);
#if W == 1
    if (e->keyed) {
        for (;;) {
            u64 x = table[i];
            if (x == s[0]) return 0;
            if (!x) { *free = i; return NONE; }
            if (++i == e->slots) i = 0;
        }
    }
#endif
    u32 tag = (u32)h;
    for (;;) {
        u64 x = table[i];
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

static int table_new(Engine *e, u64 slots)
{
    pool_free(&e->table);
    if (!pool_room(&e->table, slots * sizeof(u64))) return 0;
    e->slots = slots;
    u64 *table = ITEMS(e->table, u64);
    u64 hashes[64];
    for (u64 n = 0; n < e->count; n += 64) {
        u64 end = n + 64 < e->count ? n + 64 : e->count;
        for (u64 k = n; k < end; k++) {
            hashes[k - n] = hash_of(STATE(e, k));
            __builtin_prefetch(&table[slot_of(e, hashes[k - n])], 1);
        }
        for (u64 k = n; k < end; k++) {
            u64 i = slot_of(e, hashes[k - n]);
            while (table[i]) if (++i == slots) i = 0;
            table[i] = e->keyed ? STATE(e, k)[0] : (u64)(u32)hashes[k - n] << 32 | (u32)(k + 1);
        }
    }
    return 1;
}

static int label_add(Engine *e, u32 state, u64 left, u32 parent)
{
    if (!e->kinds) return PUSH(e->parents, u32, parent);
    u32 *first = ITEMS(e->first_label, u32), *last = ITEMS(e->last_label, u32), *next = ITEMS(e->label_next, u32);
    u64 *lefts = ITEMS(e->lefts, u64);
    for (u32 n = first[state]; n != NONE; n = next[n])
        if ((((lefts[n] | GUARDS) - left) & GUARDS) == GUARDS) return 1;
    u32 n = (u32)COUNT(e->parents, u32);
    if (first[state] == NONE) first[state] = n; else next[last[state]] = n;
    last[state] = n;
    return PUSH(e->parents, u32, parent) && PUSH(e->label_states, u32, state) && PUSH(e->label_next, u32, NONE)
        && PUSH(e->lefts, u64, left);
}

/* Room for one more state, and for labels and edges that follow at once. */
static int room(Engine *e)
{
    if (4 * (e->count + 1) > 3 * e->slots) {
        u64 slots = e->slots ? e->slots + e->slots / 3 : 1 << 14;
        if (!table_new(e, slots)) return 0;
    }
    return pool_room(&e->states, W * sizeof(u64));
}

static u32 visit(Engine *e, const u64 *s, u64 h, u64 at)
{
    u32 n = (u32)e->count++;
    memcpy(STATE(e, n), s, W * sizeof(u64));
    e->states.used += W * sizeof(u64);
    ITEMS(e->table, u64)[at] = e->keyed ? s[0] : (u64)(u32)h << 32 | (n + 1);
    if (e->kinds && !(PUSH(e->first_label, u32, NONE) && PUSH(e->last_label, u32, NONE))) return NONE;
    return n;
}

/* A first state: its number, or NONE where it is known; its claims are asked by `search`. */
u32 add_first(Engine *e, const u64 *s, u64 left)
{
    u64 at = 0, h = hash_of(s);
    if (!room(e)) return NONE;
    if (find(e, s, h, &at) != NONE) return NONE;
    u32 n = visit(e, s, h, at);
    return n != NONE && label_add(e, n, left, NONE) ? n : NONE;
}

/* ---- claims */

/* 1 or 0; -1: the answer of `e->test` is not known. */
static inline int holds(Engine *e, i32 program, const u64 *s)
{
    const Test *tests = ITEMS(e->tests, Test);
    const u64 *kids = ITEMS(e->kids, u64), *trees = ITEMS(e->trees, u64);
    while (program >= 0) {
        u64 slot = walk(kids, trees[tests[program].root], s);
        if (!slot) { e->test = (u32)program; return -1; }
        program = slot >> 1 ? tests[program].yes : tests[program].no;
    }
    return program == -2;
}

/* Whether all probes have been asked; else the search has to return: one has fired, or an answer is not known. */
static inline int asked(Engine *e, const Claim *claims, u32 n, const u64 *s, u32 of)
{
    const u8 *active = ITEMS(e->active, u8);
    for (u32 i = 0; i < n; i++) {
        if (!active[claims[i].probe]) continue;
        int yes = holds(e, claims[i].program, s);
        if (!yes) continue;
        e->of = of; e->probe = claims[i].probe;
        memcpy(e->words, s, W * sizeof(u64));
        e->what = yes < 0 ? CLAIM : FIRED;
        return 0;
    }
    return 1;
}

/* ---- the search */

static inline u32 class_of(const Engine *e, u64 left)
{
    u32 class = 0;
    for (u32 k = 0; k < e->kinds; k++) if (left >> (8 * k) & 127) class |= 1u << k;
    return class;
}

static inline u64 left_of(const Engine *e, u64 label) { return e->kinds ? ITEMS(e->lefts, u64)[label] : 0; }
static inline u32 state_of(const Engine *e, u64 label) { return e->kinds ? ITEMS(e->label_states, u32)[label] : (u32)label; }
static inline u64 labels_of(const Engine *e) { return COUNT(e->parents, u32); }

/* Whether an earlier label of the state leaves some of each kind of fault that this one leaves. */
static int nothing_new(const Engine *e, u32 state, u64 label, u64 left)
{
    const u64 *lefts = ITEMS(e->lefts, u64);
    const u32 *next = ITEMS(e->label_next, u32);
    u32 mine = class_of(e, left);
    u32 theirs = 0;
    for (u32 n = ITEMS(e->first_label, u32)[state]; n != NONE && n < label; n = next[n]) theirs |= class_of(e, lefts[n]);
    return !(mine & ~theirs);
}

static int follow(Engine *e, u64 label, u32 state, u64 left)
{
    for (u32 n = ITEMS(e->first_label, u32)[state]; n != NONE && n < label; n = ITEMS(e->label_next, u32)[n]) {
        u64 end = ITEMS(e->begins, u64)[n + 1];
        for (u64 i = ITEMS(e->begins, u64)[n]; i < end; i++) {
            u64 cost = ITEMS(e->changes, Change)[ITEMS(e->edge_changes, u32)[i]].cost;
            u64 rest = (left | GUARDS) - cost;
            if ((rest & GUARDS) == GUARDS && !label_add(e, ITEMS(e->targets, u32)[i], rest & ~GUARDS, (u32)label)) return 0;
        }
    }
    return 1;
}

static int steps_unknown(Engine *e, u32 part, u32 class, u64 label, u32 state, const u64 *s)
{
    e->what = STEPS; e->part = part; e->class = class; e->label = label; e->number = state;
    memcpy(e->words, s, W * sizeof(u64));
    return 0;
}

#ifdef __BMI2__
#define FAULTY NONE

/* The bits of a state that lie under masks, side by side. */
static inline u64 seen(const u64 *s, const u64 *masks)
{
    u64 found = _pext_u64(s[0], masks[0]);
#if W > 1
    for (int w = 1; w < W; w++) found = found << __builtin_popcountll(masks[w]) | _pext_u64(s[w], masks[w]);
#endif
    return found;
}

static void masks_of(const Engine *e, u64 slot, u64 *masks)
{
    if (!slot || slot & 1) return;
    u64 base = slot >> 20, size = (u64)1 << (slot >> 1 & 127);
    masks[slot >> 14 & 63] |= (size - 1) << (slot >> 8 & 63);
    for (u64 i = 0; i < size; i++) masks_of(e, ITEMS(e->kids, u64)[base + i], masks);
}

/* Parts that come one after the other and see few bits together are looked up together: in one table, not in trees.
 * Only where no faults are counted, as the parts then have but one tree each. */
static int join_parts(Engine *e)
{
    u64 size = 0;
    e->joints.used = e->tables.used = e->joined.used = 0;
    Joint now = { 0 };
    for (u32 p = 0; p <= e->parts; p++) {
        u64 masks[W] = { 0 };
        u32 bits = 0, own = 0;
        if (p < e->parts) {
            masks_of(e, ITEMS(e->trees, u64)[ITEMS(e->roots, u32)[p]], masks);
            for (int w = 0; w < W; w++) {
                own += (u32)__builtin_popcountll(masks[w]);
                bits += (u32)__builtin_popcountll(masks[w] | now.masks[w]);
            }
        }
        if (now.joined && (p == e->parts || bits > JOINT)) {
            u32 all = 0;
            for (int w = 0; w < W; w++) all += (u32)__builtin_popcountll(now.masks[w]);
            now.table = size;
            size += (u64)1 << all;
            if (!PUSH(e->joints, Joint, now)) return 0;
            memset(&now, 0, sizeof now);
        }
        if (p == e->parts) break;
        if (own > JOINT) {
            Joint alone = { p, p + 1, 0, 0, { 0 } };
            if (!PUSH(e->joints, Joint, alone)) return 0;
            continue;
        }
        if (!now.joined) now.first = p;
        now.joined = 1; now.end = p + 1;
        for (int w = 0; w < W; w++) now.masks[w] |= masks[w];
    }
    if (!pool_room(&e->tables, size * sizeof(u32))) return 0;
    memset(e->tables.at, 0, size * sizeof(u32));
    return 1;
}

/* What happens in a state by joined parts: the first of them of which that is not known, or NONE and the leaf plus one
 * (0: no memory; FAULTY: the specification is at fault there). */
static u32 join(Engine *e, const Joint *joint, const u64 *s, u32 *known)
{
    Leaf all = { (u32)COUNT(e->members, u32), 0, 0 };
    const u64 *kids = ITEMS(e->kids, u64), *trees = ITEMS(e->trees, u64);
    *known = 0;
    for (u32 p = joint->first; p < joint->end; p++) {
        u64 slot = walk(kids, trees[ITEMS(e->roots, u32)[p]], s);
        if (!slot) return p;
        if (ITEMS(e->leaves, Leaf)[slot >> 1].fault) { *known = FAULTY; return NONE; }
    }
    for (u32 p = joint->first; p < joint->end; p++) {
        Leaf leaf = ITEMS(e->leaves, Leaf)[walk(kids, trees[ITEMS(e->roots, u32)[p]], s) >> 1];
        for (u32 i = 0; i < leaf.count; i++, all.count++) {
            u32 change = ITEMS(e->members, u32)[leaf.first + i];
            if (!PUSH(e->members, u32, change)) return NONE;
        }
    }
    if (PUSH(e->joined, Leaf, all)) *known = (u32)COUNT(e->joined, Leaf);
    return NONE;
}
#endif

/* The steps of the next labels; 0 where those of `e->part` are not known. */
static int gather(Engine *e)
{
    u64 labels = labels_of(e), first = e->searched;
    u32 n = (u32)(labels - first < BLOCK ? labels - first : BLOCK);
    if (first + n > e->level_end) n = (u32)(e->level_end - first);
    const u64 *kids = ITEMS(e->kids, u64), *trees = ITEMS(e->trees, u64);
    const u32 *roots = ITEMS(e->roots, u32);
    const Leaf *leaves = ITEMS(e->leaves, Leaf);
    const u32 *members = ITEMS(e->members, u32);
    const u64 *masks = ITEMS(e->masks, u64);
    const Change *changes = ITEMS(e->changes, Change);
    (void)changes;
    e->heap.used = e->way.used = 0;
    if (!pool_room(&e->way, (size_t)n * e->parts * sizeof(u32))) { e->what = NO_MEMORY; return 0; }
    u32 *way = ITEMS(e->way, u32);
    for (u32 k = 0; k < n; k++) {       /* first what happens, as that may not be known; then what becomes of it */
        u64 label = first + k;
        u32 state = state_of(e, label), class = class_of(e, left_of(e, label)), parts = e->parts;
        const u64 *s = STATE(e, state);
        e->way_of[k] = (u32)(way - ITEMS(e->way, u32));
#ifdef __BMI2__
        const Joint *joint = ITEMS(e->joints, Joint), *last = joint + COUNT(e->joints, Joint);
        if (joint != last) parts = 0;
        for (; joint != last; joint++) {
            if (!joint->joined) {
                u64 slot = walk(kids, trees[roots[joint->first]], s);
                if (!slot) return steps_unknown(e, joint->first, 0, label, state, s);
                if (leaves[slot >> 1].count || leaves[slot >> 1].fault) *way++ = (u32)(slot >> 1) << 1;
                if (leaves[slot >> 1].fault) break;
                continue;
            }
            u32 *at = ITEMS(e->tables, u32) + joint->table + seen(s, joint->masks), known = *at;
            if (!known) {
                u32 p = join(e, joint, s, &known);
                if (p != NONE) return steps_unknown(e, p, 0, label, state, s);
                if (!known) { e->what = NO_MEMORY; return 0; }
                if (known == FAULTY) {  /* where the specification is at fault, trees are soon enough */
                    part_us(e);
                    e->settled = ~(u64)0;
                    return gather(e);
                }
                members = ITEMS(e->members, u32);
                *at = known;
            }
            if (ITEMS(e->joined, Leaf)[known - 1].count) *way++ = (known - 1) << 1 | 1;
        }
#endif
        for (u32 p = 0; p < parts; p++) {
            u64 slot = walk(kids, trees[roots[p * e->classes + class]], s);
            if (!slot) return steps_unknown(e, p, class, label, state, s);
            *way++ = (u32)(slot >> 1) << 1;
            if (leaves[slot >> 1].fault) break;
        }
    }
    e->way_of[n] = (u32)(way - ITEMS(e->way, u32));
    for (u32 k = 0; k < n; k++) {
        const u64 *s = STATE(e, state_of(e, first + k));
        e->begins_of[k] = (u32)COUNT(e->heap, Step);
        e->faulty[k] = 0; e->skipped[k] = 0;
        for (u32 p = e->way_of[k]; p < e->way_of[k + 1]; p++) {
            u32 at = ITEMS(e->way, u32)[p];
            Leaf leaf = at & 1 ? ITEMS(e->joined, Leaf)[at >> 1] : leaves[at >> 1];
            if (leaf.count && !pool_room(&e->heap, leaf.count * sizeof(Step))) { e->what = NO_MEMORY; return 0; }
            Step *step = ITEMS(e->heap, Step) + COUNT(e->heap, Step), *begin = step;
            for (u32 i = 0; i < leaf.count; i++) {
                u32 c = step->change = members[leaf.first + i];
                const u64 *m = masks + (size_t)c * 2 * W;
                for (int w = 0; w < W; w++) step->target[w] = (s[w] & m[w]) | m[W + w];
#if W == 1
                if (e->brief && step->target[0] == s[0] && !changes[c].claims) {
                    ITEMS(e->uses, u64)[c]++;
                    e->skipped[k]++;
                    continue;
                }
#endif
                step->hash = hash_of(step->target);
#if W == 1
                if (e->brief) {
                    u64 *near = &e->recent[step->hash % RECENT];
                    if (*near == step->target[0] && !changes[c].claims) {
                        ITEMS(e->uses, u64)[c]++;
                        e->skipped[k]++;
                        continue;
                    }
                    *near = step->target[0];
                }
#endif
                __builtin_prefetch(ITEMS(e->table, u64) + slot_of(e, step->hash));
                step++;
            }
            e->heap.used += (size_t)(step - begin) * sizeof(Step);
            if (leaf.fault) { e->faulty[k] = 1; e->fault_leaf[k] = at >> 1; }
        }
    }
    e->begins_of[n] = (u32)COUNT(e->heap, Step);
    e->block = n; e->at_label = e->at_step = e->then = e->found = 0;
    return 1;
}

/* One step of a label; 0 where the search has to return first. */
static inline int expand(Engine *e, const Step *step, u64 label, u32 number, u64 left, int before)
{
    const Change *c = ITEMS(e->changes, Change) + step->change;
    u64 then = left, at = 0;
    int fresh = !before;
    if (c->cost) {
        u64 rest = (left | GUARDS) - c->cost;
        if ((rest & GUARDS) != GUARDS) return 1;
        then = rest & ~GUARDS;
        fresh = 1;
        if (before)
            for (u32 n = ITEMS(e->first_label, u32)[number]; n != NONE && n < label; n = ITEMS(e->label_next, u32)[n])
                if ((((ITEMS(e->lefts, u64)[n] | GUARDS) - c->cost) & GUARDS) == GUARDS) { fresh = 0; break; }
    }
    u32 target = find(e, step->target, step->hash, &at);
    int inside = target != NONE;
    if (!inside) {
        if (!fresh) return 1;
        int yes = holds(e, e->bounds, step->target);
        if (yes < 0) {
            e->what = CLAIM; e->of = OF_BOUNDS; e->change = step->change; e->label = label; e->number = number;
            memcpy(e->words, step->target, W * sizeof(u64));
            return 0;
        }
        inside = yes;
    }
    if (fresh && inside && c->claims) {
        const u64 *s = STATE(e, number);
        e->change = step->change; e->label = label; e->number = number;
        memcpy(e->target, step->target, W * sizeof(u64));
        if (!asked(e, ITEMS(e->claims, Claim) + c->first_claim, c->claims, s, OF_STEP)) return 0;
    }
    if (fresh) {
        e->found += !c->fault;
        e->generated++;
        ITEMS(e->uses, u64)[step->change]++;
        if (!inside) { e->cut++; return 1; }
    }
    int known = target != NONE;
    if (!known) {
        if (4 * (e->count + 1) > 3 * e->slots || e->states.used + W * sizeof(u64) > e->states.bytes) {
            if (!room(e)) { e->what = NO_MEMORY; return 0; }
            find(e, step->target, step->hash, &at);
        }
        target = visit(e, step->target, step->hash, at);
        e->phase = CHECK;
    }
    if ((e->kinds || !known) && !label_add(e, target, then, (u32)label)) { e->what = NO_MEMORY; return 0; }
    if (!fresh) return 1;
    e->edges++;
    if (e->graph && !(PUSH(e->targets, u32, target) && PUSH(e->edge_changes, u32, step->change))) { e->what = NO_MEMORY; return 0; }
    return 1;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Asks the claims about the newest state. */
static int check(Engine *e)
{
    u64 n = e->count - 1;
    e->number = n;
    return asked(e, ITEMS(e->on_states, Claim), (u32)COUNT(e->on_states, Claim), STATE(e, n), OF_STATE);
}

/* Asks the claims about a first state. */
u32 check_first(Engine *e) { return check(e) ? DONE : e->what; }

/* Searches for so long, and returns what it needs, has found, or stopped at. */
u32 search(Engine *e, double slice)
{
    double until = seconds() + slice;
    u32 turns = 0;
    for (;;) {
        if (e->phase == GATHER) {
            if (e->searched == labels_of(e)) return e->what = DONE;
            if (e->searched == e->level_end || !e->level_states.used) {
                if (e->level_states.used) e->depth++;
                e->level_end = labels_of(e);
                if (!PUSH(e->level_states, u64, e->count) || !PUSH(e->level_labels, u64, e->level_end)) return e->what = NO_MEMORY;
            }
            if (e->depth >= e->limit_depth) return e->what = AT_DEPTH;
            if (++turns % 64 == 0 && seconds() > until) return e->what = PAUSE;
#ifdef __BMI2__
            if (!e->kinds && !e->joints.used && e->settled != ~(u64)0 && e->searched > e->settled + SETTLED && !join_parts(e))
                return e->what = NO_MEMORY;
#endif
            if (!gather(e)) return e->what;
            e->phase = EXPAND;
        }
        while (e->at_label < e->block) {
            u64 label = e->searched;
            u32 number = state_of(e, label);
            u64 left = left_of(e, label);
            u32 begin = e->begins_of[e->at_label], end = e->begins_of[e->at_label + 1];
            if (e->phase == CHECK) {
                if (!check(e)) return e->what;
                e->phase = EXPAND;
            }
            int before = e->kinds && ITEMS(e->first_label, u32)[number] != label;
            if (e->phase == EXPAND) {
                if (!e->then) {
                    if (e->count >= e->limit_states || e->searched >= e->limit_labels) return e->what = AT_STATES;
                    if (e->graph && !PUSH(e->begins, u64, COUNT(e->targets, u32))) return e->what = NO_MEMORY;
                    e->then = 1; e->at_step = begin; e->found = e->skipped[e->at_label];
                    e->generated += e->found; e->edges += e->found;
                    if (before && e->graph && nothing_new(e, number, label, left)) {
                        if (!follow(e, label, number, left)) return e->what = NO_MEMORY;
                        e->at_step = end; e->found = 1; e->faulty[e->at_label] = 0;
                    }
                }
                while (e->at_step < end) {
                    if (!expand(e, ITEMS(e->heap, Step) + e->at_step, label, number, left, before)) return e->what;
                    e->at_step++;
                    if (e->phase == CHECK) {
                        if (!check(e)) return e->what;
                        e->phase = EXPAND;
                    }
                }
                e->phase = STUCK;
                if (e->faulty[e->at_label]) {
                    e->found++;
                    e->faulty[e->at_label] = 0;
                    e->what = FAULT; e->number = number; e->label = label; e->part = e->fault_leaf[e->at_label];
                    return e->what;
                }
            }
            if (!e->found && !before) {
                e->number = number; e->label = label;
                if (!asked(e, ITEMS(e->on_stuck, Claim), (u32)COUNT(e->on_stuck, Claim), STATE(e, number), OF_STUCK)) return e->what;
            }
            e->phase = EXPAND; e->then = 0;
            e->at_label++; e->searched++;
        }
        e->phase = GATHER;
    }
}

/* ---- other widths of atoms */

static void recode(const Atom *from, const Atom *to, u32 n, const u64 *s, u64 *t)
{
    for (int w = 0; w < W; w++) t[w] = 0;
    for (u32 i = 0; i < n; i++)
        t[to[i].word] |= (s[from[i].word] >> from[i].shift & (((u64)1 << from[i].bits) - 1)) << to[i].shift;
    t[0] |= PRESENT;
}

static u64 regrow(Engine *e, const Pool *old, u64 slot)
{
    if (!slot || slot & 1) return slot;
    const u64 *kids = ITEMS(*old, u64);
    u64 from = slot >> 20, size = (u64)1 << (slot >> 1 & 127);
    u64 grown = node_new(e, (u32)kids[from - 1]);
    for (u64 i = 0; grown && i < size; i++) {
        u64 kid = regrow(e, old, kids[from + i]);
        if (kids[from + i] && !kid) return 0;
        ITEMS(e->kids, u64)[(grown >> 20) + i] = kid;
    }
    return grown;
}

/* Gives the atoms other places. 0: no memory. */
int lay_out(Engine *e, u32 n, const u8 *word, const u8 *shift, const u8 *bits)
{
    Pool was = e->atoms, old = e->kids;
    memset(&e->atoms, 0, sizeof e->atoms);
    for (u32 i = 0; i < n; i++) {
        Atom a = { word[i], shift[i], bits[i] };
        if (!PUSH(e->atoms, Atom, a)) return 0;
    }
    if (!was.at) return 1;
    u64 t[W];
    for (u64 k = 0; k < e->count; k++) {
        recode(ITEMS(was, Atom), ITEMS(e->atoms, Atom), n, STATE(e, k), t);
        memcpy(STATE(e, k), t, sizeof t);
    }
    pool_free(&was);
    for (u32 i = 0; i < COUNT(e->changes, Change); i++)
        mask_of(e, ITEMS(e->changes, Change) + i, ITEMS(e->masks, u64) + (size_t)i * 2 * W);
    memset(&e->kids, 0, sizeof e->kids);
    for (u32 i = 0; i < COUNT(e->trees, u64); i++) {
        u64 slot = ITEMS(e->trees, u64)[i], grown = regrow(e, &old, slot);
        if (slot && !grown) return 0;
        ITEMS(e->trees, u64)[i] = grown;
    }
    pool_free(&old);
    memset(e->recent, 0, sizeof e->recent);
    part_us(e);
    return !e->slots || table_new(e, e->slots);
}

/* ---- looking at what was found */

u64 figure(const Engine *e, u32 which)
{
    const u64 all[] = { e->count, e->generated, e->edges, e->cut, e->searched, labels_of(e), e->depth,
        COUNT(e->level_states, u64), COUNT(e->targets, u32), e->table.bytes + e->states.bytes + e->parents.bytes
        + e->label_states.bytes + e->label_next.bytes + e->first_label.bytes + e->last_label.bytes + e->lefts.bytes
        + e->begins.bytes + e->targets.bytes + e->edge_changes.bytes + e->kids.bytes, COUNT(e->begins, u64) };
    return all[which];
}

u32 asks(const Engine *e, u32 which)
{
    const u32 all[] = { e->what, e->part, e->class, e->test, e->probe, e->change, e->of, (u32)e->label, (u32)e->number };
    return all[which];
}

const u64 *asked_words(const Engine *e) { return e->words; }
const u64 *target_words(const Engine *e) { return e->target; }

const void *found(const Engine *e, u32 which)
{
    const void *all[] = { e->states.at, e->parents.at, e->label_states.at, e->lefts.at, e->begins.at, e->targets.at,
        e->edge_changes.at, e->level_states.at, e->level_labels.at, e->uses.at, e->first_label.at, e->label_next.at,
        e->cell_first.at, e->cell_states.at, e->between.at };
    return all[which];
}

/* ---- combinations of some atoms' values: the cells of the product */

static u32 *cell_slot(const Engine *e, const u64 *s)
{
    const u64 *masks = ITEMS(e->cell_masks, u64);
    u64 mine[W];
    for (int w = 0; w < W; w++) mine[w] = s[w] & masks[w];
    u64 i = (u64)(((unsigned __int128)hash_of(mine) * e->cell_slots) >> 64);
    u32 *cells = ITEMS(e->cells, u32);
    for (; cells[i]; i = i + 1 == e->cell_slots ? 0 : i + 1) {
        const u64 *other = STATE(e, ITEMS(e->cell_first, u32)[cells[i] - 1]);
        int same = 1;
        for (int w = 0; w < W; w++) same &= (other[w] & masks[w]) == mine[w];
        if (same) break;
    }
    return cells + i;
}

/* Counts the combinations of the atoms' values that were found; their number, or NONE: no memory. */
u32 survey(Engine *e, u32 n, const u32 *atoms)
{
    pool_free(&e->cells); pool_free(&e->cell_masks);
    e->cell_first.used = e->cell_states.used = 0;
    for (int w = 0; w < W; w++) if (!PUSH(e->cell_masks, u64, 0)) return NONE;
    for (u32 i = 0; i < n; i++) {
        Atom a = ATOM(e, atoms[i]);
        ITEMS(e->cell_masks, u64)[a.word] |= (((u64)1 << a.bits) - 1) << a.shift;
    }
    e->cell_slots = 1 << 10;
    if (!pool_room(&e->cells, e->cell_slots * sizeof(u32))) return NONE;
    for (u64 k = 0; k < e->count; k++) {
        u32 *slot = cell_slot(e, STATE(e, k));
        if (*slot) { ITEMS(e->cell_states, u32)[*slot - 1]++; continue; }
        if (!PUSH(e->cell_first, u32, (u32)k) || !PUSH(e->cell_states, u32, 1)) return NONE;
        *slot = (u32)COUNT(e->cell_first, u32);
        if (2 * *slot < e->cell_slots) continue;
        e->cell_slots *= 4;
        pool_free(&e->cells);
        if (!pool_room(&e->cells, e->cell_slots * sizeof(u32))) return NONE;
        for (u32 c = 0; c < COUNT(e->cell_first, u32); c++) *cell_slot(e, STATE(e, ITEMS(e->cell_first, u32)[c])) = c + 1;
    }
    return (u32)COUNT(e->cell_first, u32);
}

static int between(Engine *e, Pool *known, u64 *slots, u32 here, u32 there, u32 tag)
{
    u64 n = COUNT(e->between, u32) / 3, h = ((u64)here << 32 | there) * 0x9E3779B97F4A7C15ULL ^ (u64)tag * 0xBF58476D1CE4E5B9ULL;
    if (2 * (n + 1) > *slots) {
        *slots = *slots ? *slots * 4 : 1 << 10;
        pool_free(known);
        if (!pool_room(known, *slots * sizeof(u32))) return 0;
        for (u64 i = 0; i < n; i++) {
            const u32 *x = ITEMS(e->between, u32) + 3 * i;
            u64 g = ((u64)x[0] << 32 | x[1]) * 0x9E3779B97F4A7C15ULL ^ (u64)x[2] * 0xBF58476D1CE4E5B9ULL;
            u64 at = (u64)(((unsigned __int128)g * *slots) >> 64);
            while (ITEMS(*known, u32)[at]) if (++at == *slots) at = 0;
            ITEMS(*known, u32)[at] = (u32)i + 1;
        }
    }
    u64 at = (u64)(((unsigned __int128)h * *slots) >> 64);
    for (u32 i; (i = ITEMS(*known, u32)[at]); at = at + 1 == *slots ? 0 : at + 1) {
        const u32 *x = ITEMS(e->between, u32) + 3 * (u64)(i - 1);
        if (x[0] == here && x[1] == there && x[2] == tag) return 1;
    }
    ITEMS(*known, u32)[at] = (u32)n + 1;
    return PUSH(e->between, u32, here) && PUSH(e->between, u32, there) && PUSH(e->between, u32, tag);
}

/* The steps between different combinations, in the order in which they were found; their number, or NONE: no memory. */
u32 survey_edges(Engine *e)
{
    Pool known = { 0 };
    u64 slots = 0;
    e->between.used = 0;
    for (u64 label = 0; label < e->searched; label++) {
        const u64 *s = STATE(e, state_of(e, label));
        u32 here = *cell_slot(e, s) - 1;
        if (e->graph) {
            u64 end = label + 1 < COUNT(e->begins, u64) ? ITEMS(e->begins, u64)[label + 1] : COUNT(e->targets, u32);
            for (u64 i = ITEMS(e->begins, u64)[label]; i < end; i++) {
                u32 there = *cell_slot(e, STATE(e, ITEMS(e->targets, u32)[i])) - 1;
                u32 tag = ITEMS(e->changes, Change)[ITEMS(e->edge_changes, u32)[i]].tag;
                if (there != here && !between(e, &known, &slots, here, there, tag)) return NONE;
            }
            continue;
        }
        for (u32 p = 0; p < e->parts; p++) {
            Leaf leaf = ITEMS(e->leaves, Leaf)[walk(ITEMS(e->kids, u64), ITEMS(e->trees, u64)[ITEMS(e->roots, u32)[p * e->classes]], s) >> 1];
            for (u32 i = 0; i < leaf.count; i++) {
                u32 c = ITEMS(e->members, u32)[leaf.first + i];
                const u64 *m = ITEMS(e->masks, u64) + (size_t)c * 2 * W;
                u64 t[W];
                for (int w = 0; w < W; w++) t[w] = (s[w] & m[w]) | m[W + w];
                u64 at;
                if (e->cut && find(e, t, hash_of(t), &at) == NONE) continue;
                u32 there = *cell_slot(e, t) - 1;
                if (there != here && !between(e, &known, &slots, here, there, ITEMS(e->changes, Change)[c].tag)) return NONE;
            }
            if (leaf.fault) break;
        }
    }
    pool_free(&known);
    return (u32)(COUNT(e->between, u32) / 3);
}

/* Of each state whether a program says yes, from `e->marked` on; 0: an answer is not known. */
int mark(Engine *e, i32 program, u8 *out)
{
    for (; e->marked < e->count; e->marked++) {
        int yes = holds(e, program, STATE(e, e->marked));
        if (yes < 0) {
            e->of = OF_STATE;
            memcpy(e->words, STATE(e, e->marked), W * sizeof(u64));
            return 0;
        }
        out[e->marked] = (u8)yes;
    }
    e->marked = 0;
    return 1;
}
