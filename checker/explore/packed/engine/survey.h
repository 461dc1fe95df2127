/* Combinations of some atoms' values, such as the cells of the product. */

static u32 *cell_slot(const Engine *e, const u64 *s)
{
    const u64 *masks = ITEMS(e->cell_masks, u64);
    u64 mine[W];
    for (int w = 0; w < W; w++) mine[w] = s[w] & masks[w];
    u64 i = (hash_of(mine) >> 32) * e->cell_slots >> 32;
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
PUBLIC(u32, survey)(Engine *e, u32 n, const u32 *atoms)
{
    send_home(e);
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
        for (*slots = 1 << 10; *slots < 4 * (n + 1); *slots *= 4) {}
        pool_free(known);
        if (!pool_room(known, *slots * sizeof(u32))) return 0;
        for (u64 i = 0; i < n; i++) {
            const u32 *x = ITEMS(e->between, u32) + 3 * i;
            u64 g = ((u64)x[0] << 32 | x[1]) * 0x9E3779B97F4A7C15ULL ^ (u64)x[2] * 0xBF58476D1CE4E5B9ULL;
            u64 at = (g >> 32) * *slots >> 32;
            while (ITEMS(*known, u32)[at]) if (++at == *slots) at = 0;
            ITEMS(*known, u32)[at] = (u32)i + 1;
        }
    }
    u64 at = (h >> 32) * *slots >> 32;
    for (u32 i; (i = ITEMS(*known, u32)[at]); at = at + 1 == *slots ? 0 : at + 1) {
        const u32 *x = ITEMS(e->between, u32) + 3 * (u64)(i - 1);
        if (x[0] == here && x[1] == there && x[2] == tag) return 1;
    }
    ITEMS(*known, u32)[at] = (u32)n + 1;
    return PUSH(e->between, u32, here) && PUSH(e->between, u32, there) && PUSH(e->between, u32, tag);
}

/* Finds the steps between different combinations, in the order in which they were met. DONE, NO_MEMORY, or STEPS,
 * CLAIM or MOVE: some are not known, as in a search that went on from a checkpoint; then it is to be called again. */
PUBLIC(u32, survey_edges)(Engine *e)
{
    Pool known = { 0 };
    u64 slots = 0;
    if (!e->marked) e->between.used = 0;
    for (; e->marked < e->searched; e->marked++) {
        u64 label = e->marked;
        const u64 *s = STATE(e, state_of(e, label));
        u32 here = *cell_slot(e, s) - 1;
        if (e->graph) {
            u64 end = edges_end(e, label);
            for (u64 i = ITEMS(e->begins, u64)[label]; i < end; i++) {
                u32 there = *cell_slot(e, STATE(e, ITEMS(e->targets, u32)[i])) - 1;
                u32 tag = ITEMS(e->changes, Change)[ITEMS(e->edge_changes, u32)[i]].tag;
                if (there != here && !between(e, &known, &slots, here, there, tag)) return NO_MEMORY;
            }
            continue;
        }
        u64 left = left_of(e, label);
        if (e->given && met_before(e, label, state_of(e, label)) && nothing_new(e, state_of(e, label), label, left)) continue;
        for (u32 p = 0; p < e->parts; p++) {
            int open = is_open(e, p, s, &e->test);
            if (!open) continue;
            u32 class = class_of(e, left), root = ITEMS(e->roots, u32)[p * e->classes + class];
            u64 slot = open < 0 ? 0 : walk(ITEMS(e->kids, u64), ITEMS(e->trees, u64)[root], s);
            if (!slot) {
                pool_free(&known);
                steps_unknown(e, p, class, label, state_of(e, label), s);
                return e->what;
            }
            Leaf leaf = ITEMS(e->leaves, Leaf)[slot >> 1];
            for (u32 i = 0; i < leaf.count; i++) {
                u32 c = ITEMS(e->members, u32)[leaf.first + i];
                if (!affords(left, ITEMS(e->changes, Change)[c].cost)) continue;
                const u64 *m = ITEMS(e->masks, u64) + (size_t)c * 2 * W;
                u64 t[W];
                for (int w = 0; w < W; w++) t[w] = (s[w] & m[w]) | m[W + w];
                u64 still;
                if (e->alike.used && !put_in_order(e, t, &still, &e->missing)) { pool_free(&known); return e->what = MOVE; }
                u64 at;
                if (e->cut && find(e, t, hash_of(t), &at) == NONE) continue;
                u32 there = *cell_slot(e, t) - 1;
                if (there != here && !between(e, &known, &slots, here, there, ITEMS(e->changes, Change)[c].tag)) return NO_MEMORY;
            }
            if (leaf.fault) break;
        }
    }
    pool_free(&known);
    e->marked = 0;
    return DONE;
}

/* Of each state whether a program says yes, from `e->marked` on; 0: an answer is not known. */
PUBLIC(int, mark)(Engine *e, i32 program, u8 *out)
{
    for (; e->marked < e->count; e->marked++) {
        int yes = holds(e, program, STATE(e, e->marked), &e->test);
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
