/* Claims. */

/* 1 or 0; -1: the answer of `test` is not known. */
static inline int holds(const Engine *e, i32 program, const u64 *s, u32 *test)
{
    const Test *tests = ITEMS(e->tests, Test);
    const u64 *kids = ITEMS(e->kids, u64), *trees = ITEMS(e->trees, u64);
    while (program >= 0) {
        u64 slot = walk(kids, trees[tests[program].root], s);
        if (!slot) { *test = (u32)program; return -1; }
        program = slot >> 1 ? tests[program].yes : tests[program].no;
    }
    return program == -2;
}

/* Whether a part may have steps: 1 or 0; -1: that is not known. */
static inline int is_open(const Engine *e, u32 part, const u64 *s, u32 *test)
{
    return holds(e, ITEMS(e->gates, i32)[part], s, test);
}

/* Whether all probes have been asked; else the search has to return: one has fired, or an answer is not known. */
static inline int asked(Engine *e, const Claim *claims, u32 n, const u64 *s, u32 of)
{
    const u8 *active = ITEMS(e->active, u8);
    for (u32 i = 0; i < n; i++) {
        if (!active[claims[i].probe]) continue;
        int yes = holds(e, claims[i].program, s, &e->test);
        if (!yes) continue;
        e->of = of; e->probe = claims[i].probe;
        memcpy(e->words, s, W * sizeof(u64));
        e->what = yes < 0 ? CLAIM : FIRED;
        return 0;
    }
    return 1;
}

/* Where a program leads to by answers that are known together. */
static inline i32 leap(const Engine *e, i32 program, const u64 *s)
{
#if PEXT
    const u32 *of = ITEMS(e->leap_of, u32);
    while (program >= 0 && of[program]) {
        const Leap *leap = ITEMS(e->leaps, Leap) + of[program] - 1;
        i32 then = ITEMS(e->leap_tables, i32)[leap->table + seen(s, leap->masks)];
        if (!then) break;
        program = then - 3;
    }
#endif
    (void)e; (void)s;
    return program;
}

/* Whether claims that are still asked have nothing to say of a state, or of a step from it. */
static inline u8 are_clear(const Engine *e, const Claim *claims, u32 n, const u64 *s)
{
    const u8 *active = ITEMS(e->active, u8);
    u32 test;
    for (u32 i = 0; i < n; i++) {
        if (!active[claims[i].probe]) continue;
        if (holds(e, claims[i].program, s, &test)) return 0;
    }
    return 1;
}

/* Whether a chain of claims has nothing to say of a state. */
static inline u8 chain_is_clear(const Engine *e, i32 at, const u64 *s)
{
    const Test *tests = ITEMS(e->chained, Test);
    while ((at = leap(e, at, s)) >= 0) {
        u64 slot = walk(ITEMS(e->kids, u64), ITEMS(e->trees, u64)[tests[at].root], s);
        if (!slot) return 0;
        at = slot >> 1 ? tests[at].yes : tests[at].no;
    }
    return at == -1;
}

static inline u8 is_clear(const Engine *e, const u64 *s)
{
    if (e->told && chain_is_clear(e, e->states_chain, s)) return 1;
    return are_clear(e, ITEMS(e->on_states, Claim), (u32)COUNT(e->on_states, Claim), s);
}

/* Whether quiet claims about steps have nothing to say of the steps from a state. */
static inline u8 is_quiet(const Engine *e, const u64 *s)
{
    u64 n = COUNT(e->quiet, Claim);
    if (e->told && e->chained_quiet == n && chain_is_clear(e, e->quiet_chain, s)) return 1;
    return are_clear(e, ITEMS(e->quiet, Claim), (u32)n, s);
}
