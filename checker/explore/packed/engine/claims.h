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

/* `holds` where answers are known together; -1: one may not be known. */
static inline int leaps(const Engine *e, i32 program, const u64 *s)
{
#if PEXT
    const u32 *of = ITEMS(e->leap_of, u32);
    u64 known = COUNT(e->leap_of, u32);
    while (program >= 0 && (u64)program < known && of[program]) {
        const Leap *leap = ITEMS(e->leaps, Leap) + of[program] - 1;
        i32 then = ITEMS(e->leap_tables, i32)[leap->table + seen(s, leap->masks)];
        if (!then) break;
        program = then - 3;
    }
#endif
    u32 test;
    return holds(e, program, s, &test);
}

/* Whether claims that are still asked have nothing to say of a state, or of a step from it. */
static inline u8 are_clear(const Engine *e, const Claim *claims, u32 n, const u64 *s)
{
    const u8 *active = ITEMS(e->active, u8);
    for (u32 i = 0; i < n; i++) if (active[claims[i].probe] && leaps(e, claims[i].program, s)) return 0;
    return 1;
}

static inline u8 is_clear(const Engine *e, const u64 *s)
{
    return are_clear(e, ITEMS(e->on_states, Claim), (u32)COUNT(e->on_states, Claim), s);
}

/* Whether no claim has anything to say of a step from a state. */
static inline u8 step_is_clear(const Engine *e, const Asked *asked, const u64 *s)
{
    return are_clear(e, ITEMS(e->claims, Claim) + asked->first, asked->count, s);
}
