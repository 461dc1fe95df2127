/* Other places for atoms: states and trees are packed anew. */

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
PUBLIC(int, lay_out)(Engine *e, u32 n, const u8 *word, const u8 *shift, const u8 *bits)
{
    send_home(e);
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
    forget_recent(e);
    e->ahead = 0;               /* what was gathered ahead lies as before */
    e->leap_of.used = e->told = e->cleared = 0;
    part_us(e);
    return !e->slots || table_new(e, e->slots);
}
