/* Claims about steps, looked up together. What the claims of a kind of step say depends on few bits of the state where it
 * begins. Where they have said no once, they say no again: that is kept, as a bit for all that they may see. What is kept
 * stays right when their trees grow, as known answers stay; but then they may see more, and nothing is added. */

#if PEXT
/* The bits that programs see, by test. */
static int masks_of_tests(const Engine *e, Pool *masks)
{
    u64 n = COUNT(e->tests, Test);
    if (!pool_room(masks, (n + 1) * W * sizeof(u64))) return 0;
    u64 *all = ITEMS(*masks, u64);
    memset(all, 0, n * W * sizeof(u64));
    for (u64 t = 0; t < n; t++) {   /* a test comes after those that follow it */
        Test test = ITEMS(e->tests, Test)[t];
        masks_of(e, ITEMS(e->trees, u64)[test.root], all + t * W, 0);
        for (int w = 0; w < W; w++) {
            if (test.yes >= 0) all[t * W + w] |= all[(u64)test.yes * W + w];
            if (test.no >= 0) all[t * W + w] |= all[(u64)test.no * W + w];
        }
    }
    return 1;
}

/* A table for all that claims see; none where that is too much. 0: no memory. */
static int clear_table(Engine *e, Clear *clear)
{
    u32 bits = bits_of(clear->masks, clear->masks);
    u64 words = bits < 6 ? 1 : (u64)1 << (bits - 6);
    clear->table = ~(u64)0;
    if (bits > CLEAR) return 1;
    clear->table = COUNT(e->clear_bits, u64);
    if (!pool_room(&e->clear_bits, words * sizeof(u64))) return 0;
    memset(ITEMS(e->clear_bits, u64) + clear->table, 0, words * sizeof(u64));
    e->clear_bits.used += words * sizeof(u64);
    return 1;
}

/* Puts the claims of a kind of step together, as far as they see few bits; a claim that sees many stands alone. */
static int clears_of(Engine *e, Asked asked, const u64 *masks)
{
    u64 first = COUNT(e->clears, Clear);
    u8 done[256] = { 0 };
    if (!PUSH(e->clear_of, u32, (u32)first)) return 0;
    for (u32 left = asked.owned < 256 ? asked.owned : 256; left;) {
        Clear clear = { (u32)COUNT(e->clear_claims, Claim), 0, ~(u64)0, { 0 } };
        for (u32 k = 0; k < asked.owned && k < 256; k++) {
            static const u64 none[W] = { 0 };
            Claim c = ITEMS(e->claims, Claim)[asked.own + k];
            const u64 *mine = c.program < 0 ? none : masks + (u64)c.program * W;
            int fits = bits_of(clear.masks, mine) <= CLEAR;
            if (done[k] || (clear.count && !fits)) continue;
            done[k] = 1; left--;
            if (!ITEMS(e->active, u8)[c.probe]) continue;
            if (!PUSH(e->clear_claims, Claim, c)) return 0;
            clear.count++;
            for (int w = 0; w < W; w++) clear.masks[w] |= mine[w];
            if (!fits) break;
        }
        if (clear.count && !(clear_table(e, &clear) && PUSH(e->clears, Clear, clear))) return 0;
    }
    return 1;
}

/* The claims of a table may see more than they did: then it is made anew. 0: no memory. */
static int clear_again(Engine *e, Clear *clear, const u64 *masks)
{
    u64 more = 0;
    if (!~clear->table) return 1;
    for (u32 k = 0; k < clear->count; k++) {
        i32 program = ITEMS(e->clear_claims, Claim)[clear->first + k].program;
        for (int w = 0; program >= 0 && w < W; w++) {
            more |= masks[(u64)program * W + w] & ~clear->masks[w];
            clear->masks[w] |= masks[(u64)program * W + w];
        }
    }
    return !more || clear_table(e, clear);
}

/* Whether there are tables of all kinds of steps that are known, and may be added to. */
static inline int clears_last(const Engine *e) { return e->clear_open && e->cleared == COUNT(e->asked, Asked); }

/* Makes it so. 0: no memory. */
static int clears_new(Engine *e)
{
    Pool masks = { 0 };
    hold(e);
    if (!e->cleared) e->clears.used = e->clear_of.used = e->clear_claims.used = e->clear_bits.used = 0;
    else e->clear_of.used -= sizeof(u32);      /* where the tables of the last kind end */
    int had = masks_of_tests(e, &masks);
    for (u64 i = 0; had && i < COUNT(e->clears, Clear); i++)
        had = clear_again(e, ITEMS(e->clears, Clear) + i, ITEMS(masks, u64));
    for (u64 i = e->cleared; had && i < COUNT(e->asked, Asked); i++)
        had = clears_of(e, ITEMS(e->asked, Asked)[i], ITEMS(masks, u64));
    had = had && PUSH(e->clear_of, u32, (u32)COUNT(e->clears, Clear));
    pool_free(&masks);
    e->cleared = had ? (u32)COUNT(e->asked, Asked) : 0;
    e->clear_open = (u32)had;
    let_go(e);
    return had;
}

/* Whether claims that are looked up together have nothing to say of a step from a state. */
static inline u8 is_clear_of(const Engine *e, const Clear *clear, const u64 *s)
{
    const Claim *claims = ITEMS(e->clear_claims, Claim) + clear->first;
    if (!~clear->table) return are_clear(e, claims, clear->count, s);
    u64 at = seen(s, clear->masks), bit = (u64)1 << (at & 63);
    u64 *word = ITEMS(e->clear_bits, u64) + clear->table + (at >> 6);
    if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit) return 1;
    if (!are_clear(e, claims, clear->count, s)) return 0;
    if (e->clear_open) __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    return 1;
}
#endif

/* Whether no claim has anything to say of a kind of step from a state, given whether that holds of quiet ones. */
static inline u8 step_is_clear(const Engine *e, u32 kind, const u64 *s, u8 quiet)
{
    const Asked *asked = ITEMS(e->asked, Asked) + kind;
    if (!quiet) return are_clear(e, ITEMS(e->claims, Claim) + asked->first, asked->count, s);
#if PEXT
    if (kind < e->cleared && asked->owned <= 256) {
        const u32 *of = ITEMS(e->clear_of, u32) + kind;
        for (u32 i = of[0]; i < of[1]; i++) if (!is_clear_of(e, ITEMS(e->clears, Clear) + i, s)) return 0;
        return 1;
    }
#endif
    return are_clear(e, ITEMS(e->claims, Claim) + asked->own, asked->owned, s);
}
