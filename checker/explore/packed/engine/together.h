/* Tables in place of trees: for parts that see few bits, and for tests of a program. */

/* Adds the uses of leaves to those of their changes. */
static void tally(Engine *e)
{
    u64 *uses = ITEMS(e->uses, u64);
    for (u64 i = 0; i < COUNT(e->leaf_uses, u64) + COUNT(e->joined_uses, u64); i++) {
        u64 leaves = COUNT(e->leaf_uses, u64);
        Leaf leaf = i < leaves ? ITEMS(e->leaves, Leaf)[i] : (Leaf){ 0, 0, 0 };
        Joined joined = i < leaves ? (Joined){ leaf.first, leaf.count, 0 } : ITEMS(e->joined, Joined)[i - leaves];
        u64 *n = i < leaves ? ITEMS(e->leaf_uses, u64) + i : ITEMS(e->joined_uses, u64) + i - leaves;
        for (u32 k = 0; *n && k < joined.count + joined.loops; k++) uses[ITEMS(e->members, u32)[joined.first + k]] += *n;
        *n = 0;
    }
}

#if PEXT
#define FAULTY NONE

/* The bits that a tree asks for, and those that its answers write; 0 for the latter where its answers are no leaves. */
static void masks_of(const Engine *e, u64 slot, u64 *asked, u64 *written)
{
    if (!slot) return;
    if (slot & 1) {
        if (!written) return;
        Leaf leaf = ITEMS(e->leaves, Leaf)[slot >> 1];
        for (u32 i = 0; i < leaf.count; i++) {
            const u64 *m = ITEMS(e->masks, u64) + (size_t)ITEMS(e->members, u32)[leaf.first + i] * 2 * W;
            for (int w = 0; w < W; w++) written[w] |= ~m[w];
        }
        return;
    }
    u64 base = slot >> 20, size = (u64)1 << (slot >> 1 & 127);
    asked[slot >> 14 & 63] |= (size - 1) << (slot >> 8 & 63);
    for (u64 i = 0; i < size; i++) masks_of(e, ITEMS(e->kids, u64)[base + i], asked, written);
}

static u32 bits_of(const u64 *masks, const u64 *more)
{
    u32 bits = 0;
    for (int w = 0; w < W; w++) bits += BITS(masks[w] | more[w]);
    return bits;
}

/* Whether a change changes nothing in any state that has these bits under a joint's masks. */
static int is_loop(const Engine *e, u32 change, const Joint *joint, const u64 *s)
{
    const u64 *m = ITEMS(e->masks, u64) + (size_t)change * 2 * W;
    if (!e->brief || ITEMS(e->changes, Change)[change].claims) return 0;
    for (int w = 0; w < W; w++) if (~m[w] & ~joint->masks[w] || (s[w] & ~m[w]) != m[W + w]) return 0;
    return 1;
}

/* The bits that a part asks for, and those that its steps write. */
static void masks_of_part(const Engine *e, u32 part, u64 *asked, u64 *written)
{
    const u64 *trees = ITEMS(e->trees, u64);
    for (i32 t = ITEMS(e->gates, i32)[part]; t >= 0; t = ITEMS(e->tests, Test)[t].no)
        masks_of(e, trees[ITEMS(e->tests, Test)[t].root], asked, 0);
    masks_of(e, trees[ITEMS(e->roots, u32)[part]], asked, written);
}

/* What happens in a state by joined parts: the first of them of which that is not known, or NONE and its number plus
 * one (0: no memory; FAULTY: the specification is at fault there). */
static u32 join(Engine *e, const Joint *joint, const u64 *s, u32 *known)
{
    Joined all = { (u32)COUNT(e->members, u32), 0, 0 };
    const u64 *kids = ITEMS(e->kids, u64), *trees = ITEMS(e->trees, u64);
    u32 test;
    *known = 0;
    for (u32 p = joint->first; p < joint->end; p++) {
        int open = is_open(e, p, s, &test);
        if (!open) continue;
        if (open < 0) return p;
        u64 slot = walk(kids, trees[ITEMS(e->roots, u32)[p]], s);
        if (!slot) return p;
        if (ITEMS(e->leaves, Leaf)[slot >> 1].fault) { *known = FAULTY; return NONE; }
    }
    for (int loops = 0; loops < 2; loops++)
        for (u32 p = joint->first; p < joint->end; p++) {
            if (!is_open(e, p, s, &test)) continue;
            Leaf leaf = ITEMS(e->leaves, Leaf)[walk(kids, trees[ITEMS(e->roots, u32)[p]], s) >> 1];
            for (u32 i = 0; i < leaf.count; i++) {
                u32 change = ITEMS(e->members, u32)[leaf.first + i];
                if (is_loop(e, change, joint, s) != loops) continue;
                if (!PUSH(e->members, u32, change)) return NONE;
                if (loops) all.loops++; else all.count++;
            }
        }
    if (PUSH(e->joined_uses, u64, 0) && PUSH(e->joined, Joined, all)) *known = (u32)COUNT(e->joined, Joined);
    return NONE;
}

/* Works out what happens by joined parts for all bits that they may see, as far as their trees know. */
static int fill(Engine *e, const Joint *joint)
{
    u64 size = (u64)1 << bits_of(joint->masks, joint->masks), s[W];
    for (u64 bits = 0; bits < size; bits++) {
        state_with(bits, joint->masks, s);
        u32 known, part = join(e, joint, s, &known);
        if (part != NONE || known == FAULTY) continue;
        if (!known) return 0;
        ITEMS(e->tables, u32)[joint->table + bits] = known;
    }
    return 1;
}

/* Parts that come one after the other and see few bits together are looked up together: in one table, not in trees.
 * Only where no faults are counted, as the parts then have but one tree each. */
static int join_parts(Engine *e)
{
    u64 size = 0;
    tally(e);
    e->joints.used = e->tables.used = e->joined.used = e->joined_uses.used = 0;
    Joint now = { 0 };
    for (u32 p = 0; p <= e->parts; p++) {
        u64 masks[W] = { 0 }, written[W] = { 0 };
        if (p < e->parts) {
            masks_of_part(e, p, masks, written);
            if (e->brief && bits_of(masks, written) <= JOINT) for (int w = 0; w < W; w++) masks[w] |= written[w];
        }
        if (now.joined && (p == e->parts || bits_of(masks, now.masks) > JOINT)) {
            now.table = size;
            size += (u64)1 << bits_of(now.masks, now.masks);
            if (!PUSH(e->joints, Joint, now)) return 0;
            memset(&now, 0, sizeof now);
        }
        if (p == e->parts) break;
        if (bits_of(masks, masks) > JOINT) {
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
    for (u64 i = 0; i < COUNT(e->joints, Joint); i++) {
        const Joint *joint = ITEMS(e->joints, Joint) + i;
        if (joint->joined && !fill(e, joint)) return 0;
    }
    return 1;
}
/* Answers the tests of a program from one on together, as far as they see few bits, and so on from where these lead,
 * until there are as many leaps as there may be. 0: no memory. */
static int leap_new(Engine *e, i32 from, u8 *within, u64 most)
{
    const Test *tests = ITEMS(e->chained, Test);
    const u64 *trees = ITEMS(e->trees, u64);
    u64 count = COUNT(e->chained, Test), none[W] = { 0 };
    if (from < 0 || ITEMS(e->leap_of, u32)[from] || COUNT(e->leaps, Leap) >= most) return 1;
    Leap leap = { COUNT(e->leap_tables, i32), { 0 } };
    Pool open = { 0 };
    memset(within, 0, count);
    if (!PUSH(open, i32, from)) return 0;
    for (u64 i = 0; i < COUNT(open, i32); i++) {
        i32 t = ITEMS(open, i32)[i];
        u64 masks[W];
        memcpy(masks, leap.masks, sizeof masks);
        if (within[t]) continue;
        masks_of(e, trees[tests[t].root], masks, 0);
        if (bits_of(masks, none) > JOINT) continue;
        memcpy(leap.masks, masks, sizeof masks);
        within[t] = 1;
        if ((tests[t].yes >= 0 && !PUSH(open, i32, tests[t].yes)) || (tests[t].no >= 0 && !PUSH(open, i32, tests[t].no))) return 0;
    }
    u64 size = (u64)1 << bits_of(leap.masks, none), s[W];
    int made = within[from], had = 1;
    if (made) {
        if (!pool_room(&e->leap_tables, size * sizeof(i32))) return 0;
        for (u64 bits = 0; bits < size; bits++) {
            i32 at = from;
            state_with(bits, leap.masks, s);
            while (at >= 0 && within[at]) {
                u64 slot = walk(ITEMS(e->kids, u64), trees[tests[at].root], s);
                if (!slot) { at = -3; break; }
                at = slot >> 1 ? tests[at].yes : tests[at].no;
            }
            ITEMS(e->leap_tables, i32)[leap.table + bits] = at + 3;
        }
        e->leap_tables.used += size * sizeof(i32);
        if (!PUSH(e->leaps, Leap, leap)) return 0;
        ITEMS(e->leap_of, u32)[from] = (u32)COUNT(e->leaps, Leap);
    }
    for (u64 bits = 0; had && made && bits < size; bits++)
        had = leap_new(e, ITEMS(e->leap_tables, i32)[leap.table + bits] - 3, within, most);
    pool_free(&open);
    return had;
}

/* Puts the tests of a program into a chain, where `then` follows instead of a no; returns where they begin; -3: no
 * memory. `made` has of each test its place in the chain plus one. */
static i32 link_tests(Engine *e, i32 program, i32 then, u32 *made)
{
    if (program < 0) return program == -1 ? then : program;
    if (made[program]) return (i32)made[program] - 1;
    Test t = ITEMS(e->tests, Test)[program];
    t.yes = link_tests(e, t.yes, then, made);
    t.no = link_tests(e, t.no, then, made);
    if (t.yes == -3 || t.no == -3 || !PUSH(e->chained, Test, t)) return -3;
    made[program] = (u32)COUNT(e->chained, Test);
    return (i32)made[program] - 1;
}

/* Chains claims that are still asked, so that one after the other is asked until one says yes. -3: no memory. */
static i32 chain_new(Engine *e, const Pool *claims, u32 *made)
{
    i32 at = -1;
    for (u64 i = COUNT(*claims, Claim); i-- > 0 && at != -3;) {
        Claim c = ITEMS(*claims, Claim)[i];
        if (!ITEMS(e->active, u8)[c.probe]) continue;
        memset(made, 0, e->told * sizeof *made);
        at = link_tests(e, c.program, at, made);
    }
    return at;
}

/* Answers together what claims ask. */
static int leaps_new(Engine *e)
{
    u64 told = COUNT(e->tests, Test);
    u32 *made = malloc((told + 1) * sizeof *made);
    u8 *within = 0;
    e->chained.used = e->leaps.used = e->leap_tables.used = 0;
    int had = made && pool_room(&e->chained, e->tests.used);
    if (had) {
        if (told) memcpy(e->chained.at, e->tests.at, e->tests.used);
        e->chained.used = e->tests.used;
        e->told = told; e->chained_quiet = COUNT(e->quiet, Claim); e->chained_silenced = e->silenced;
        e->states_chain = chain_new(e, &e->on_states, made);
        e->quiet_chain = chain_new(e, &e->quiet, made);
        had = e->states_chain != -3 && e->quiet_chain != -3;
    }
    free(made);
    u64 count = COUNT(e->chained, Test);
    if (had) had = (within = malloc(count + 1)) && pool_room(&e->leap_of, count * sizeof(u32));
    if (had) {
        memset(e->leap_of.at, 0, count * sizeof(u32));
        e->leap_of.used = count * sizeof(u32);
        had = leap_new(e, e->states_chain, within, LEAPS) && leap_new(e, e->quiet_chain, within, 2 * LEAPS);
    }
    free(within);
    return had;
}

/* Trees that have not changed for long are replaced by tables from now on. */
static int settle(Engine *e)
{
    int known = e->told == COUNT(e->tests, Test) && e->chained_quiet == COUNT(e->quiet, Claim)
        && e->chained_silenced == e->silenced;
    return (known || leaps_new(e)) && (e->kinds || e->joints.used || join_parts(e));
}
#endif
