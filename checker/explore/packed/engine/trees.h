/* Trees. */

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
PUBLIC(u32, tree_new)(Engine *e)
{
    send_home(e);
    return PUSH(e->part_trees, u8, 0) && PUSH(e->trees, u64, 0) ? (u32)(COUNT(e->trees, u64) - 1) : NONE;
}

/* Hangs an answer in: on the way from the root these atoms have these codes. 0: no memory; 2: the tree asks otherwise. */
PUBLIC(int, hang)(Engine *e, u32 tree, u32 n, const u32 *atoms, const u32 *codes, u32 answer)
{
    u64 at = 0;             /* of the slot: in `kids`, but for the root */
    send_home(e);
    int root = 1, of_part = ITEMS(e->part_trees, u8)[tree];
    if (of_part) e->answered = e->searched;
    for (u32 i = 0; i < n; i++) {
        u64 slot = root ? ITEMS(e->trees, u64)[tree] : ITEMS(e->kids, u64)[at];
        if (!slot) {
            slot = node_new(e, atoms[i]);
            if (!slot) return 0;
            if (of_part) part_us(e);
            else { e->clear_open = 0; e->claims_grown = e->searched; }
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

#if PEXT
/* The bits of a state that lie under masks, side by side. */
static inline u64 seen(const u64 *s, const u64 *masks)
{
    u64 found = EXTRACT(s[0], masks[0]);
#if W > 1
    for (int w = 1; w < W; w++) found = found << BITS(masks[w]) | EXTRACT(s[w], masks[w]);
#endif
    return found;
}

/* A state that has these bits under masks. */
static void state_with(u64 bits, const u64 *masks, u64 *s)
{
    for (int w = W - 1; w >= 0; w--) {
        s[w] = DEPOSIT(bits, masks[w]);
        bits >>= BITS(masks[w]);
    }
}
#endif
