/* The steps from the next states: their changes, where they lead, and whether that is known. */

static inline u32 class_of(const Engine *e, u64 left)
{
    u32 class = 0;
    for (u32 k = 0; k < e->kinds; k++) if (left >> (8 * k) & 127) class |= 1u << k;
    return class;
}

static inline u64 left_of(const Engine *e, u64 label) { return e->kinds ? ITEMS(e->lefts, u64)[label] : 0; }
static inline u32 state_of(const Engine *e, u64 label) { return e->kinds ? ITEMS(e->label_states, u32)[label] : (u32)label; }

/* Where the edges of a label end that has some kept. */
static inline u64 edges_end(const Engine *e, u64 label)
{
    return label + 1 < COUNT(e->begins, u64) ? ITEMS(e->begins, u64)[label + 1] : COUNT(e->targets, u32);
}

/* Whether an earlier label is of the same state. */
static inline int met_before(const Engine *e, u64 label, u32 state)
{
    return e->kinds && ITEMS(e->first_label, u32)[state] != label;
}
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
            if (affords(left, cost) && !label_add(e, ITEMS(e->targets, u32)[i], left - cost, (u32)label)) return 0;
        }
    }
    return 1;
}

static int steps_unknown(Engine *e, u32 part, u32 class, u64 label, u32 state, const u64 *s)
{
    e->what = STEPS;
    if (is_open(e, part, s, &e->test) < 0) { e->what = CLAIM; e->of = OF_GATE; }
    e->part = part; e->class = class; e->label = label; e->number = state;
    memcpy(e->words, s, W * sizeof(u64));
    return 0;
}

/* Where the steps of a block's labels are from. 0: that is not known; then `e->what` says what is asked for, if the
 * block is gathered by the one who searches, `alone`. */
static int find_ways(Engine *e, Block *b, int alone)
{
    const u64 *kids = ITEMS(e->kids, u64), *trees = ITEMS(e->trees, u64);
    const u32 *roots = ITEMS(e->roots, u32);
    const Leaf *leaves = ITEMS(e->leaves, Leaf);
    u32 test;
    b->way.used = 0;
    if (!pool_room(&b->way, (size_t)b->labels * e->parts * sizeof(u32))) { if (alone) e->what = NO_MEMORY; return 0; }
    u32 *way = ITEMS(b->way, u32);
    for (u32 k = 0; k < b->labels; k++) {
        u64 label = b->first + k;
        u32 state = state_of(e, label), class = class_of(e, left_of(e, label)), parts = e->parts;
        const u64 *s = STATE(e, state);
        b->way_of[k] = (u32)(way - ITEMS(b->way, u32));
#if PEXT
        const Joint *joint = ITEMS(e->joints, Joint), *last = joint + COUNT(e->joints, Joint);
        if (joint != last) parts = 0;
        for (; joint != last; joint++) {
            if (!joint->joined) {
                int open = is_open(e, joint->first, s, &test);
                if (!open) continue;
                u64 slot = open < 0 ? 0 : walk(kids, trees[roots[joint->first]], s);
                if (!slot) return alone && steps_unknown(e, joint->first, 0, label, state, s);
                if (leaves[slot >> 1].count || leaves[slot >> 1].fault) *way++ = (u32)(slot >> 1) << 1;
                if (leaves[slot >> 1].fault) break;
                continue;
            }
            u32 *at = ITEMS(e->tables, u32) + joint->table + seen(s, joint->masks), known = *at;
            if (!known) {
                if (!alone) return 0;
                u32 p = join(e, joint, s, &known);
                if (p != NONE) return steps_unknown(e, p, 0, label, state, s);
                if (!known) { e->what = NO_MEMORY; return 0; }
                if (known == FAULTY) {  /* where the specification is at fault, trees are soon enough */
                    part_us(e);
                    e->settled = ~(u64)0;
                    return find_ways(e, b, alone);
                }
                *at = known;
            }
            *way++ = (known - 1) << 1 | 1;
        }
#endif
        for (u32 p = 0; p < parts; p++) {
            int open = is_open(e, p, s, &test);
            if (!open) continue;
            u64 slot = open < 0 ? 0 : walk(kids, trees[roots[p * e->classes + class]], s);
            if (!slot) return alone && steps_unknown(e, p, class, label, state, s);
            *way++ = (u32)(slot >> 1) << 1;
            if (leaves[slot >> 1].fault) break;
        }
    }
    b->way_of[b->labels] = (u32)(way - ITEMS(b->way, u32));
    return 1;
}

/* The changes of a leaf of a label's way; `more` are those that change nothing, if they are only counted. */
static inline u32 changes_of(const Engine *e, u32 way, const u32 **first, u32 *more)
{
    if (way & 1) {
        const Joined *joined = ITEMS(e->joined, Joined) + (way >> 1);
        *first = ITEMS(e->members, u32) + joined->first;
        *more = joined->loops;
        return joined->count;
    }
    const Leaf *leaf = ITEMS(e->leaves, Leaf) + (way >> 1);
    *first = ITEMS(e->members, u32) + leaf->first;
    *more = 0;
    return leaf->count;
}

/* The steps of a block's labels, but those that lead to what was met just now, if these are only counted.
 * Few branches here and below: what is met is not to be foreseen, and waiting for one state's slot should not keep
 * others from being asked for. 0: as `find_ways`. */
static int take_changes(Engine *e, Block *b, u64 *recent, int alone)
{
    const u64 *masks = ITEMS(e->masks, u64), *table = ITEMS(e->table, u64);
    const Change *changes = ITEMS(e->changes, Change);
    u32 brief = e->brief;
    (void)recent; (void)brief;
    b->steps.used = 0;
    for (u32 k = 0; k < b->labels; k++) {
        const u64 *s = STATE(e, state_of(e, b->first + k));
        u64 left = left_of(e, b->first + k);
        u32 all = 0, begin = (u32)COUNT(b->steps, Step);
        b->begins_of[k] = begin;
        b->faulty[k] = 0;
        for (u32 p = b->way_of[k]; p < b->way_of[k + 1]; p++) {
            u32 way = ITEMS(b->way, u32)[p], loops;
            const u32 *members;
            u32 count = changes_of(e, way, &members, &loops);
            if (!(way & 1) && ITEMS(e->leaves, Leaf)[way >> 1].fault) { b->faulty[k] = 1; b->fault_leaf[k] = way >> 1; }
            if (!pool_room(&b->steps, (count + 1) * sizeof(Step))) { if (alone) e->what = NO_MEMORY; return 0; }
            Step *step = ITEMS(b->steps, Step) + COUNT(b->steps, Step), *from = step;
            for (u32 i = 0; i < count; i++) {
                u32 c = step->change = members[i];
                if (e->kinds && !affords(left, changes[c].cost)) { all--; continue; }
                const u64 *m = masks + (size_t)c * 2 * W;
                for (int w = 0; w < W; w++) step->target[w] = (s[w] & m[w]) | m[W + w];
                u64 still;
                Missing missing;
                if (e->alike.used && !put_in_order(e, step->target, &still, &missing)) {
                    memset(recent, 0, RECENT * sizeof *recent);     /* what is known to have been met will be met again */
                    if (alone) { e->missing = missing; e->what = MOVE; }
                    return 0;
                }
                step->hash = hash_of(step->target);
                step->of = (u16)k;
                FETCH(table + slot_of(e, step->hash));
#if W == 1
                u64 *near = &recent[step->hash % RECENT], t = step->target[0];
                u32 met = brief & ((*near == t) | (t == s[0])) & !changes[c].claims;
                *near = t;
                step += !met;
#else
                step++;
#endif
            }
            all += count + loops;
            b->steps.used += (size_t)(step - from) * sizeof(Step);
        }
        b->skipped[k] = all - ((u32)COUNT(b->steps, Step) - begin);
    }
    b->begins_of[b->labels] = (u32)COUNT(b->steps, Step);
    return 1;
}

/* Looks the targets up, and leaves out those that are known, if these are only counted. */
static void find_targets(Engine *e, Block *b)
{
    Step *steps = ITEMS(b->steps, Step), *end = steps + COUNT(b->steps, Step), *kept = steps;
#if W == 1
    if (e->brief && !e->asked.used) {
        const u64 *table = ITEMS(e->table, u64);
        for (Step *step = steps; step < end; step++) {
            Step one = *step;
            *kept = one;
            kept += LOAD(&table[slot_of(e, one.hash)], ACQUIRE) != one.target[0];
        }
        end = kept;
        kept = steps;
    }
#endif
    const Change *changes = ITEMS(e->changes, Change);
    if (!e->keyed) for (Step *step = steps; step < end; step++) fetch_state(e, step->hash);
    u32 n[BLOCK] = { 0 };
    u8 quiet[BLOCK] = { 0 };       /* of each label: not asked yet, 1 no, 2 yes */
    for (Step *step = steps; step < end; step++) {
        u64 at;
        u32 number = find(e, step->target, step->hash, &at);
        if (e->brief && number != NONE && !changes[step->change].claims) continue;
        step->number = number;
        if (e->kinds && number != NONE) FETCH(ITEMS(e->first_label, u32) + number);
        step->new_clear = number == NONE && is_clear(e, step->target);
        u32 asked = changes[step->change].claims, state = state_of(e, b->first + step->of);
        step->step_clear = 1;
        if (asked && (changes[step->change].cost || !met_before(e, b->first + step->of, state))) {  /* else nothing is asked */
            u8 *still = &quiet[step->of];
            if (!*still) *still = 1 + is_quiet(e, STATE(e, state));
            step->step_clear = step_is_clear(e, asked - 1, STATE(e, state), *still == 2);
        }
        n[step->of]++;
        *kept++ = *step;
    }
    u32 at = 0;
    for (u32 k = 0; k < b->labels; k++) {
        b->skipped[k] += b->begins_of[k + 1] - b->begins_of[k] - n[k];
        b->begins_of[k] = at;
        at += n[k];
    }
    b->begins_of[b->labels] = at;
}

/* Gathers the steps of a block's labels. 0: as `find_ways`. */
static int gather(Engine *e, Block *b, u64 *recent, int alone)
{
    if (!find_ways(e, b, alone)) return 0;
    if (!take_changes(e, b, recent, alone)) return 0;
    find_targets(e, b);
    return 1;
}
