/* Claims about steps: those of one step that see few bits together are looked up together.
 *
 * A table's entry is made when it is first asked for: by a state whose answers are found by asking for these bits alone.
 * So it holds for every state that has the same ones, whatever trees come to ask of others. */

#define SEES_MUCH (~(u64)0)

#if PEXT
/* Of each test the bits that it and all that may follow ask for; tests follow those that were made before them. */
static u64 *masks_of_tests(const Engine *e)
{
    u64 count = COUNT(e->tests, Test), *masks = calloc(count + 1, W * sizeof *masks);
    for (u64 t = 0; masks && t < count; t++) {
        Test test = ITEMS(e->tests, Test)[t];
        masks_of(e, ITEMS(e->trees, u64)[test.root], masks + t * W, 0);
        for (int w = 0; w < W; w++) {
            if (test.yes >= 0) masks[t * W + w] |= masks[test.yes * W + w];
            if (test.no >= 0) masks[t * W + w] |= masks[test.no * W + w];
        }
    }
    return masks;
}

/* Groups the claims of a kind of step: each is in the first group with which it sees few bits. 0: no memory. */
static int group_asked(Engine *e, Asked *asked, const u64 *seen_by)
{
    const u64 none[W] = { 0 };
    u64 (*masks)[W] = calloc(asked->count, sizeof *masks);
    u32 *group_of = malloc(asked->count * sizeof *group_of), n = 0;
    int had = masks && group_of;
    asked->first_group = (u32)COUNT(e->groups, Group);
    for (u32 i = 0; had && i < asked->count; i++) {
        i32 program = ITEMS(e->claims, Claim)[asked->first + i].program;
        const u64 *mine = program < 0 ? none : seen_by + (size_t)program * W;
        u64 both[W];
        u32 g = 0;
        for (; g < n; g++) {
            for (int w = 0; w < W; w++) both[w] = masks[g][w] | mine[w];
            if (bits_of(both, none) <= SEEN) break;
        }
        if (g == n) n++;
        for (int w = 0; w < W; w++) masks[g][w] |= mine[w];
        group_of[i] = g;
    }
    for (u32 g = 0; had && g < n; g++) {
        Group group = { SEES_MUCH, (u32)COUNT(e->grouped, Claim), 0, { 0 } };
        u32 bits = bits_of(masks[g], none);
        memcpy(group.masks, masks[g], sizeof group.masks);
        for (u32 i = 0; had && i < asked->count; i++) {
            if (group_of[i] != g) continue;
            group.count++;
            had = PUSH(e->grouped, Claim, ITEMS(e->claims, Claim)[asked->first + i]);
        }
        if (had && bits <= SEEN) {
            size_t size = (size_t)1 << bits;
            had = pool_room(&e->group_tables, size);
            if (!had) break;
            group.table = e->group_tables.used;
            memset(ITEMS(e->group_tables, u8) + group.table, 0, size);
            e->group_tables.used += size;
        }
        had = had && PUSH(e->groups, Group, group);
    }
    asked->groups = n;
    free(masks); free(group_of);
    return had;
}

/* Groups the claims of all steps, if their trees ask for more than when that was last done. 0: no memory. */
static int group_claims(Engine *e)
{
    u64 now = e->grown + COUNT(e->asked, Asked);
    if (e->grouped_for == now) return 1;
    e->groups.used = e->grouped.used = e->group_tables.used = 0;
    u64 *seen_by = masks_of_tests(e);
    int had = seen_by != 0;
    for (u64 i = 0; had && i < COUNT(e->asked, Asked); i++) had = group_asked(e, ITEMS(e->asked, Asked) + i, seen_by);
    free(seen_by);
    if (had) e->grouped_for = now;
    return had;
}

/* Whether a group has nothing to say of a step from a state, as is found by asking for bits under its masks alone. */
static int is_clear_within(const Engine *e, const Group *group, const u64 *s)
{
    const Test *tests = ITEMS(e->tests, Test);
    for (u32 i = 0; i < group->count; i++) {
        Claim claim = ITEMS(e->grouped, Claim)[group->first + i];
        i32 at = claim.program;
        while (at >= 0) {
            u64 slot = ITEMS(e->trees, u64)[tests[at].root];
            while (slot && !(slot & 1)) {
                u64 word = slot >> 14 & 63, shift = slot >> 8 & 63, mask = ((u64)1 << (slot >> 1 & 127)) - 1;
                if (mask << shift & ~group->masks[word]) return 0;
                slot = ITEMS(e->kids, u64)[(slot >> 20) + (s[word] >> shift & mask)];
            }
            if (!slot) return 0;
            at = slot >> 1 ? tests[at].yes : tests[at].no;
        }
        if (at == -2 && ITEMS(e->active, u8)[claim.probe]) return 0;
    }
    return 1;
}
#endif

/* Whether no claim has anything to say of a step from a state. */
static inline u8 step_is_clear(const Engine *e, const Asked *asked, const u64 *s)
{
#if PEXT
    const Group *group = ITEMS(e->groups, Group) + asked->first_group, *end = group + asked->groups;
    for (; group != end; group++) {
        u8 *clear = group->table == SEES_MUCH ? 0 : ITEMS(e->group_tables, u8) + group->table + seen(s, group->masks);
        if (clear && *(volatile u8 *)clear) continue;
        if (clear && is_clear_within(e, group, s)) *(volatile u8 *)clear = 1;
        else if (!are_clear(e, ITEMS(e->grouped, Claim) + group->first, group->count, s)) return 0;
    }
    if (asked->groups) return 1;
#endif
    return are_clear(e, ITEMS(e->claims, Claim) + asked->first, asked->count, s);
}
