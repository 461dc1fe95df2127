/* Instances that are alike: of the states that differ in which is which, the form, as canonical.py defines it.
 *
 * Instances are put in the order of their slices; those that are still equal make a cell. Where more concerns them, each
 * cell is split by what other attributes say of its instances (refinement), and of the arrangements that are left the
 * least state is taken. Cells of twins, which can change places without a change, need neither: all their orders make
 * one state. What a value with names in it becomes under a permutation is looked up; the caller is asked for it once.
 */

#define SPOTS 4096          /* values of other attributes in a state */
#define KEYS 8
#define SAME 0x5A3E

typedef struct { u8 at[INSTANCES], cell[INSTANCES]; } Cells;    /* instances in order; by instance, where its cell begins */

/* A state that is put in order: its values by spot, and the least state so far, with the permutations that make it. */
typedef struct { const Value *said[SPOTS]; const u64 *from; u64 best[W], still; u32 met; Missing *missing; } Order;

/* A group, after those that there are; `begin` forgets them. `parts` are the atoms of all instances, part by part; the
 * ranks of each part's values come one after the other. 0: no memory. */
PUBLIC(int, set_alike)(Engine *e, u32 begin, u32 instances, u32 parts, const u32 *atoms, const u32 *values, const u32 *ranks)
{
    send_home(e);
    if (begin) e->alike.used = e->slices.used = e->numbers.used = 0;
    const Alike *last = ITEMS(e->alike, Alike) + COUNT(e->alike, Alike) - 1;
    Alike a = { instances, (u32)COUNT(e->slices, Slice), parts, 1, e->alike.used ? last->begin + last->instances : 0 };
    u32 free = 64;
    for (u32 p = 0; p < parts; p++) {
        u32 bits = 1;
        while (values[p] > (u64)1 << bits) bits++;
        if (bits > free) { a.keys++; free = 64; }
        Slice s = { (u32)COUNT(e->numbers, u32), 0, a.keys - 1, free -= bits };
        s.ranks = s.atoms + instances;
        for (u32 i = 0; i < instances; i++) if (!PUSH(e->numbers, u32, *atoms++)) return 0;
        for (u32 v = 0; v < values[p]; v++) if (!PUSH(e->numbers, u32, *ranks++)) return 0;
        if (!PUSH(e->slices, Slice, s)) return 0;
    }
    return a.keys <= KEYS && PUSH(e->alike, Alike, a);
}

static inline u64 code_of(Atom a, const u64 *s) { return s[a.word] >> a.shift & (((u64)1 << a.bits) - 1); }

static inline void set_code(Atom a, u64 *s, u64 code)
{
    s[a.word] = (s[a.word] & ~((((u64)1 << a.bits) - 1) << a.shift)) | code << a.shift;
}

/* Puts the instances of each group in the order of their slices. */
static void order_slices(const Engine *e, const u64 *s, Cells *c)
{
    const u32 *numbers = ITEMS(e->numbers, u32);
    for (u32 g = 0; g < COUNT(e->alike, Alike); g++) {
        Alike a = ITEMS(e->alike, Alike)[g];
        const Slice *parts = ITEMS(e->slices, Slice) + a.first;
        u64 keys[MOST_ALIKE][KEYS];
        u8 *order = c->at + a.begin;
        for (u32 i = 0; i < a.instances; i++) for (u32 k = 0; k < a.keys; k++) keys[i][k] = 0;
        for (u32 p = 0; p < a.parts; p++)
            for (u32 i = 0; i < a.instances; i++)
                keys[i][parts[p].word] |= (u64)numbers[parts[p].ranks + code_of(ATOM(e, numbers[parts[p].atoms + i]), s)] << parts[p].shift;
        for (u32 i = 0; i < a.instances; i++) {
            u32 at = i;
            for (; at; at--) {
                const u64 *before = keys[order[at - 1] - a.begin];
                u32 k = 0;
                while (k < a.keys && before[k] == keys[i][k]) k++;
                if (k == a.keys || before[k] < keys[i][k]) break;
                order[at] = order[at - 1];
            }
            order[at] = (u8)(a.begin + i);
        }
        for (u32 at = 0, begin = 0; at < a.instances; at++) {
            u32 i = order[at] - a.begin;
            if (at && memcmp(keys[i], keys[order[at - 1] - a.begin], a.keys * sizeof(u64))) begin = at;
            c->cell[order[at]] = (u8)(a.begin + begin);
        }
    }
}

/* Other attributes */

static inline u64 hash_two(u64 kind, u64 number)        /* as `hash_of` in canonical.py */
{
    u64 x = number * 0x9E3779B97F4A7C15ULL + (kind + 1) * 0xC2B2AE3D27D4EB4FULL;
    x ^= x >> 32; x *= 0xBF58476D1CE4E5B9ULL;
    x ^= x >> 29; x *= 0x94D049BB133111EBULL;
    return x ^ x >> 32;
}

/* The values of other attributes. For each spot, in the order of atoms: the atom, the attribute, the place in `where` of
 * the spot for instances that are all 0, and how many instances it is of; then of each of these the instance, its kind,
 * and how far the next one's spot is in `where`. 0: no memory. */
PUBLIC(int, set_others)(Engine *e, u32 attributes, u32 spots, const u32 *about, u32 places, const u32 *where)
{
    send_home(e);
    for (u32 k = 0; k <= KINDS; k++) for (u32 n = 0; n <= MOST_ALIKE; n++) e->terms[k][n] = hash_two(k, n + 1);
    for (u32 k = 0; k < 2 * KINDS; k++) e->pairs[k] = hash_two(k, SAME);
    for (u32 a = 0; a < attributes; a++) { Pool none = { 0 }; if (!PUSH(e->books, Pool, none)) return 0; }
    for (u32 n = 0; n < spots; n++) {
        Spot x = { 0 };
        x.atom = *about++; x.attribute = *about++; x.table = *about++; x.count = *about++;
        for (u32 p = 0; p < x.count; p++) {
            x.of[p] = (u8)*about++; x.kinds[p] = (u8)*about++; x.strides[p] = *about++;
            x.mask |= (u64)1 << x.of[p];
        }
        if (!PUSH(e->spots, Spot, x)) return 0;
    }
    for (u32 n = 0; n < places; n++) if (!PUSH(e->where, u32, where[n])) return 0;
    return 1;
}

static u64 hash_of_names(u32 attribute, u32 skeleton, u32 count, const u8 *names)
{
    u64 h = hash_two(attribute, skeleton);
    for (u32 n = 0; n < count; n++) h = (h ^ names[n]) * 0x9E3779B97F4A7C15ULL, h ^= h >> 29;
    return h;
}

/* The code of a value with these names in these places, plus one; 0: it is not known. */
static u32 find_named(const Engine *e, u32 attribute, u32 skeleton, u32 count, const u8 *names)
{
    u64 slots = COUNT(e->named_slots, u32);
    const Named *all = ITEMS(e->named, Named);
    if (!slots) return 0;
    u64 i = hash_of_names(attribute, skeleton, count, names) & (slots - 1);
    for (u32 n; (n = ITEMS(e->named_slots, u32)[i]); i = (i + 1) & (slots - 1)) {
        const Named *x = all + n - 1;
        if (x->attribute == attribute && x->skeleton == skeleton && x->count == count
            && !memcmp(ITEMS(e->names, u8) + x->names, names, count)) return x->code + 1;
    }
    return 0;
}

static int add_named(Engine *e, u32 attribute, u32 skeleton, u32 count, const u8 *names, u32 code)
{
    Named x = { attribute, skeleton, count, (u32)e->names.used, code };
    if (find_named(e, attribute, skeleton, count, names)) return 1;
    if (!pool_room(&e->names, count)) return 0;
    memcpy(ITEMS(e->names, u8) + e->names.used, names, count);
    e->names.used += count;
    if (!PUSH(e->named, Named, x)) return 0;
    u64 known = COUNT(e->named, Named), slots = COUNT(e->named_slots, u32), from = known - 1;
    if (2 * known > slots) {
        for (slots = 1 << 10; slots < 4 * known; slots *= 2) {}
        e->named_slots.used = 0;
        if (!pool_room(&e->named_slots, slots * sizeof(u32))) return 0;
        memset(e->named_slots.at, 0, slots * sizeof(u32));
        e->named_slots.used = slots * sizeof(u32);
        from = 0;
    }
    for (; from < known; from++) {
        const Named *y = ITEMS(e->named, Named) + from;
        u64 i = hash_of_names(y->attribute, y->skeleton, y->count, ITEMS(e->names, u8) + y->names) & (slots - 1);
        while (ITEMS(e->named_slots, u32)[i]) i = (i + 1) & (slots - 1);
        ITEMS(e->named_slots, u32)[i] = (u32)from + 1;
    }
    return 1;
}

/* The next value of an attribute: a hash of what it says without names, its place among the values in their order, its
 * skeleton's number, and the instances that it names with their kinds. 0: no memory. */
PUBLIC(int, add_value)(Engine *e, u32 attribute, u64 about, u64 label, u32 skeleton, u32 count, const u8 *names, const u8 *kinds)
{
    Value v = { about, label, 0, (u32)e->names.used, skeleton, count };
    send_home(e);
    e->answered = e->searched;
    for (u32 n = 0; n < count; n++) v.mask |= (u64)1 << names[n];
    if (!pool_room(&e->names, 2 * count)) return 0;
    if (count) {
        memcpy(ITEMS(e->names, u8) + v.names, names, count);
        memcpy(ITEMS(e->names, u8) + v.names + count, kinds, count);
    }
    e->names.used += 2 * count;
    Pool *book = ITEMS(e->books, Pool) + attribute;
    u32 code = (u32)COUNT(*book, Value);
    return PUSH(*book, Value, v) && (!count || add_named(e, attribute, skeleton, count, names, code));
}

/* Other places of an attribute's values in their order. */
PUBLIC(void, set_labels)(Engine *e, u32 attribute, const u64 *labels)
{
    Pool book = ITEMS(e->books, Pool)[attribute];
    send_home(e);
    for (u64 n = 0; n < COUNT(book, Value); n++) ITEMS(book, Value)[n].label = labels[n];
}

/* The code of the value that was asked for. 0: no memory. */
PUBLIC(int, moved_to)(Engine *e, u32 code)
{
    const Missing *m = &e->missing;
    send_home(e);
    e->answered = e->searched;
    const Value *v = ITEMS(ITEMS(e->books, Pool)[m->attribute], Value) + m->code;
    u8 names[INSTANCES];
    for (u32 n = 0; n < v->count; n++) names[n] = m->to[ITEMS(e->names, u8)[v->names + n]];
    return add_named(e, m->attribute, v->skeleton, v->count, names, code);
}

/* The new number of each instance in what is asked for. */
PUBLIC(const u8 *, asked_order)(const Engine *e) { return e->missing.to; }

static inline u32 instances_of(const Engine *e)
{
    const Alike *last = ITEMS(e->alike, Alike) + COUNT(e->alike, Alike) - 1;
    return last->begin + last->instances;
}

/* The instances that do not stand alone in their cells, as bits. */
static inline u64 together(const Cells *c, u32 all)
{
    u64 open = 0;
    for (u32 at = 1; at < all; at++)
        if (c->cell[c->at[at]] != at) open |= (u64)1 << c->at[at] | (u64)1 << c->at[at - 1];
    return open;
}

/* Splits cells by what is said of their instances until nothing is split. What is said of instances that stand alone
 * splits nothing. */
static void refine(const Engine *e, const Order *o, Cells *c)
{
    const Spot *spots = ITEMS(e->spots, Spot);
    const u8 *names = ITEMS(e->names, u8);
    u32 count = (u32)COUNT(e->spots, Spot), all = instances_of(e);
    for (u64 open; (open = together(c, all));) {
        u64 sums[INSTANCES] = { 0 };
        u8 cell[INSTANCES];
        for (u32 g = 0; g < COUNT(e->alike, Alike); g++) {
            Alike a = ITEMS(e->alike, Alike)[g];
            for (u32 i = a.begin; i < a.begin + a.instances; i++) cell[i] = (u8)(c->cell[i] - a.begin);
        }
        for (u32 k = 0; k < count; k++) {
            const Spot *x = spots + k;
            const Value *v = o->said[k];
            if (!((x->mask | v->mask) & open)) continue;
            u8 of[SLOTS + NAMES], kinds[SLOTS + NAMES];
            u32 n = x->count + v->count;
            u64 fact = v->about;
            memcpy(of, x->of, SLOTS); memcpy(kinds, x->kinds, SLOTS);
            for (u32 p = 0; p < v->count; p++) {
                u32 kind = x->count + names[v->names + v->count + p];
                of[x->count + p] = names[v->names + p];
                kinds[x->count + p] = (u8)(kind < KINDS ? kind : KINDS - 1);
            }
            for (u32 p = 0; p < n; p++) fact += e->terms[kinds[p]][cell[of[p]]];
            for (u32 p = 1; p < n; p++) for (u32 q = 0; q < p; q++) if (of[p] == of[q]) fact += e->pairs[kinds[p] + kinds[q]];
            for (u32 p = 0; p < n; p++) if (open >> of[p] & 1) sums[of[p]] += hash_two(kinds[p], fact);
        }
        int split = 0;
        for (u32 from = 0, to; from < all; from = to) {
            u32 first = c->cell[c->at[from]];
            for (to = from + 1; to < all && c->cell[c->at[to]] == first; to++) {
                u8 i = c->at[to];
                u32 at = to;
                for (; at > from && sums[c->at[at - 1]] > sums[i]; at--) c->at[at] = c->at[at - 1];
                c->at[at] = i;
            }
            for (u32 at = from + 1, begin = from; at < to; at++) {
                if (sums[c->at[at]] != sums[c->at[at - 1]]) { begin = at; split = 1; }
                c->cell[c->at[at]] = (u8)begin;
            }
        }
        if (!split) return;
    }
}

static inline const Spot *spot_of(const Engine *e, const Spot *x, const u8 *to)
{
    u32 at = x->table;
    for (u32 p = 0; p < x->count; p++) at += x->strides[p] * to[x->of[p]];
    return ITEMS(e->spots, Spot) + ITEMS(e->where, u32)[at];
}

/* Whether two instances can change places without a change; 0 also where that is not known. */
static int twins(const Engine *e, const Order *o, u8 i, u8 j)
{
    const Spot *spots = ITEMS(e->spots, Spot);
    u8 swap[INSTANCES];
    u64 both = (u64)1 << i | (u64)1 << j;
    for (u32 n = 0; n < INSTANCES; n++) swap[n] = (u8)n;
    swap[i] = j; swap[j] = i;
    for (u32 k = 0; k < COUNT(e->spots, Spot); k++) {
        const Spot *x = spots + k;
        const Value *v = o->said[k];
        if (!((x->mask | v->mask) & both)) continue;
        const Value *other = o->said[spot_of(e, x, swap) - spots];
        if (!v->count) { if (v != other) return 0; continue; }
        if (v->skeleton != other->skeleton || v->count != other->count) return 0;
        const u8 *mine = ITEMS(e->names, u8) + v->names, *theirs = ITEMS(e->names, u8) + other->names;
        for (u32 n = 0; n < v->count; n++) if (swap[mine[n]] != theirs[n]) return 0;
    }
    return 1;
}

/* Whether all instances of each cell are twins: then all their orders make one state, and there are so many `orders`. */
static int all_twins(const Engine *e, const Order *o, const Cells *c, u64 *orders)
{
    *orders = 1;
    for (u32 from = 0, to, all = instances_of(e); from < all; from = to)
        for (to = from + 1; to < all && c->cell[c->at[to]] == c->cell[c->at[from]]; to++) {
            if (e->spots.used && !twins(e, o, c->at[from], c->at[to])) return 0;
            *orders *= to - from + 1;
        }
    return 1;
}

/* The state in which instances have the numbers of their positions; 0: a value of it is not known. */
static int arranged(const Engine *e, const Order *o, const Cells *c, u64 *s)
{
    const u32 *numbers = ITEMS(e->numbers, u32);
    const Spot *spots = ITEMS(e->spots, Spot);
    u8 to[INSTANCES] = { 0 };
    int moved = 0;
    for (u32 at = 0, all = instances_of(e); at < all; at++) { to[c->at[at]] = (u8)at; moved |= c->at[at] != at; }
    memcpy(s, o->from, W * sizeof(u64));
    if (!moved) return 1;
    for (u32 g = 0; g < COUNT(e->alike, Alike); g++) {
        Alike a = ITEMS(e->alike, Alike)[g];
        const Slice *parts = ITEMS(e->slices, Slice) + a.first;
        const u8 *at = c->at + a.begin;
        for (u32 p = 0; p < a.parts; p++)
            for (u32 i = 0; i < a.instances; i++) {
                const u32 *atoms = numbers + parts[p].atoms;
                set_code(ATOM(e, atoms[i]), s, code_of(ATOM(e, atoms[at[i] - a.begin]), o->from));
            }
    }
    for (u32 k = 0; k < COUNT(e->spots, Spot); k++) {
        const Value *v = o->said[k];
        u64 code = code_of(ATOM(e, spots[k].atom), o->from);
        if (v->count) {
            u8 names[NAMES];
            for (u32 n = 0; n < v->count; n++) names[n] = to[ITEMS(e->names, u8)[v->names + n]];
            u32 known = find_named(e, spots[k].attribute, v->skeleton, v->count, names);
            if (!known) {
                *o->missing = (Missing){ spots[k].attribute, (u32)code, { 0 } };
                memcpy(o->missing->to, to, sizeof to);
                return 0;
            }
            code = known - 1;
        }
        set_code(ATOM(e, spot_of(e, spots + k, to)->atom), s, code);
    }
    return 1;
}

static inline u64 label_of(const Engine *e, const Spot *x, const u64 *s)
{
    return ITEMS(ITEMS(e->books, Pool)[x->attribute], Value)[code_of(ATOM(e, x->atom), s)].label;
}

/* Tries the arrangements that refine cells; each stands for `alike` ones. 0: a value is not known. */
static int arrange(const Engine *e, Order *o, Cells c, u64 alike)
{
    const Spot *spots = ITEMS(e->spots, Spot), *end = spots + COUNT(e->spots, Spot);
    u64 orders;
    int one = all_twins(e, o, &c, &orders);
    if (!one) {
        refine(e, o, &c);
        one = all_twins(e, o, &c, &orders);
    }
    if (one) {
        u64 s[W];
        if (!arranged(e, o, &c, s)) return 0;
        int less = !o->met;
        if (o->met && !memcmp(s, o->best, sizeof s)) { o->still += alike * orders; return 1; }
        for (const Spot *x = spots; !less && x < end; x++) {
            u64 mine = label_of(e, x, s), theirs = label_of(e, x, o->best);
            if (mine > theirs) return 1;
            less = mine < theirs;
        }
        memcpy(o->best, s, sizeof s);
        o->still = alike * orders;
        o->met = 1;
        return 1;
    }
    u32 from = 0, to;
    while (c.cell[c.at[from]] == from && (from + 1 == INSTANCES || c.cell[c.at[from + 1]] != from)) from++;
    for (to = from + 1; to < instances_of(e) && c.cell[c.at[to]] == from; to++) {}
    u8 tried[INSTANCES], count[INSTANCES];
    u32 trials = 0;
    for (u32 at = from; at < to; at++) {
        u32 n = 0;
        while (n < trials && !twins(e, o, tried[n], c.at[at])) n++;
        if (n == trials) { tried[trials] = c.at[at]; count[trials++] = 0; }
        count[n]++;
    }
    for (u32 n = 0; n < trials; n++) {
        Cells next = c;
        u32 at = from;
        while (next.at[at] != tried[n]) at++;
        next.at[at] = next.at[from];
        next.at[from] = tried[n];
        for (at = from + 1; at < to; at++) next.cell[next.at[at]] = (u8)(from + 1);
        if (!arrange(e, o, next, alike * count[n])) return 0;
    }
    return 1;
}

/* The form of a state, and how many permutations change nothing. 0: a value of it is not known, but what is missing. */
static int put_in_order(const Engine *e, u64 *s, u64 *still, Missing *missing)
{
    Order o;
    Cells c;
    u32 spots = (u32)COUNT(e->spots, Spot);
    o.from = s; o.met = 0; o.missing = missing; o.still = 0;
    order_slices(e, s, &c);
    for (u32 k = 0; k < spots; k++) {
        const Spot *x = ITEMS(e->spots, Spot) + k;
        o.said[k] = ITEMS(ITEMS(e->books, Pool)[x->attribute], Value) + code_of(ATOM(e, x->atom), s);
    }
    if (!arrange(e, &o, c, 1)) return 0;
    memcpy(s, o.best, W * sizeof(u64));
    *still = o.still;
    return 1;
}

/* Of each state how many permutations change nothing, from `e->marked` on up to `end`; 0: a value is not known. */
PUBLIC(int, stills)(Engine *e, u64 begin, u64 end, u64 *out)
{
    if (e->marked < begin) e->marked = begin;
    for (; e->marked < end; e->marked++) {
        u64 s[W];
        memcpy(s, STATE(e, e->marked), sizeof s);
        if (!put_in_order(e, s, out + (e->marked - begin), &e->missing)) { e->what = MOVE; return 0; }
    }
    e->marked = 0;
    return 1;
}
