/* The model, as the caller tells it. */

PUBLIC(int, add_test)(Engine *e, u32 root, i32 yes, i32 no)
{
    Test t = { root, yes, no };
    send_home(e);
    return PUSH(e->tests, Test, t);
}

PUBLIC(int, add_probe)(Engine *e) { return PUSH(e->active, u8, 1); }
PUBLIC(void, silence)(Engine *e, u32 probe) { ITEMS(e->active, u8)[probe] = 0; e->silenced++; }

static void mask_of(const Engine *e, const Change *c, u64 *masks)
{
    for (int w = 0; w < W; w++) masks[w] = ~(u64)0, masks[W + w] = 0;
    for (u32 i = 0; i < c->writes; i++) {
        Write x = ITEMS(e->writes, Write)[c->first_write + i];
        Atom a = ATOM(e, x.atom);
        masks[a.word] &= ~((((u64)1 << a.bits) - 1) << a.shift);
        masks[W + a.word] |= (u64)x.code << a.shift;
    }
}

/* `claims` is the number plus one of what is claimed of it, in the order in which `add_claims` was told; or 0. */
PUBLIC(int, add_change)(Engine *e, u32 n, const u32 *atoms, const u32 *codes, u64 cost, u32 fault, u32 tag, u32 claims)
{
    Change c = { (u32)COUNT(e->writes, Write), n, cost, fault, tag, claims };
    send_home(e);
    for (u32 i = 0; i < n; i++) {
        Write x = { atoms[i], codes[i] };
        if (!PUSH(e->writes, Write, x)) return 0;
    }
    if (!PUSH(e->changes, Change, c) || !PUSH(e->uses, u64, 0)) return 0;
    if (!pool_room(&e->masks, 2 * W * sizeof(u64))) return 0;
    mask_of(e, &c, ITEMS(e->masks, u64) + COUNT(e->masks, u64));
    e->masks.used += 2 * W * sizeof(u64);
    return 1;
}

static int add_quiet(Engine *e, Claim x)
{
    const Claim *known = ITEMS(e->quiet, Claim), *end = known + COUNT(e->quiet, Claim);
    for (; known < end; known++) if (known->probe == x.probe && known->program == x.program) return 1;
    return PUSH(e->quiet, Claim, x);
}

/* The claims about a kind of step; `quiet`: whether it changes nothing that a claim asks for, so that the program asks
 * the same of every such step from a state. */
PUBLIC(int, add_claims)(Engine *e, u32 n, const u32 *probes, const i32 *programs, const u32 *quiet)
{
    Asked asked = { (u32)COUNT(e->claims, Claim), n, (u32)COUNT(e->claims, Claim) + n, 0 };
    send_home(e);
    for (int own = 0; own < 2; own++)
        for (u32 i = 0; i < n; i++) {
            Claim x = { probes[i], programs[i] };
            if (own && quiet[i]) { if (!add_quiet(e, x)) return 0; continue; }
            if (!PUSH(e->claims, Claim, x)) return 0;
            asked.owned += own;
        }
    e->claims_grown = e->searched;
    return PUSH(e->asked, Asked, asked);
}

PUBLIC(int, add_leaf)(Engine *e, u32 n, const u32 *changes, u32 fault)
{
    Leaf x = { (u32)COUNT(e->members, u32), n, fault };
    send_home(e);
    for (u32 i = 0; i < n; i++) if (!PUSH(e->members, u32, changes[i])) return 0;
    return PUSH(e->leaves, Leaf, x) && PUSH(e->leaf_uses, u64, 0);
}

PUBLIC(int, watch)(Engine *e, u32 of, u32 probe, i32 program)
{
    Claim x = { probe, program };
    return of == OF_STATE ? PUSH(e->on_states, Claim, x) : PUSH(e->on_stuck, Claim, x);
}

PUBLIC(void, set_bounds)(Engine *e, i32 program) { e->bounds = program; }

static int help_with(Engine *e, u32 helpers, u64 least)
{
    e->helpers = helpers < HELPERS ? helpers : HELPERS;
    e->least = least;
    if (!e->ring) {
        e->ring = aligned_new(RING * sizeof *e->ring);
        e->shared = aligned_new(sizeof *e->shared);
        e->view = aligned_new(sizeof *e->view);
        if (!e->ring || !e->shared || !e->view) return 0;
        memset(e->ring, 0, RING * sizeof *e->ring);
        memset(e->shared, 0, sizeof *e->shared);
    }
    free(e->recents);
    e->recents = calloc(e->helpers + 1, sizeof *e->recents);
    return e->recents != 0;
}

/* So many threads help where a level has at least so many labels. */
PUBLIC(int, threads)(Engine *e, u32 helpers, u64 least) { return help_with(e, helpers, least); }

PUBLIC(int, set_parts)(Engine *e, u32 parts, u32 kinds, u32 graph, u32 brief, const u32 *roots)
{
    e->parts = parts; e->kinds = kinds; e->classes = 1u << kinds; e->graph = graph;
    e->keyed = W == 1 && !graph && !kinds;
    e->brief = e->keyed && brief && e->bounds == -2;
    for (u32 i = 0; i < parts * e->classes; i++) {
        if (!PUSH(e->roots, u32, roots[i])) return 0;
        ITEMS(e->part_trees, u8)[roots[i]] = 1;
    }
    for (u32 p = 0; p < parts; p++) if (!PUSH(e->gates, i32, -2)) return 0;
    return e->recents ? 1 : help_with(e, 0, ~(u64)0);     /* nobody helps, unless that was said before */
}

/* A part has steps only where a program says yes: a chain of tests, of which each ends in no, or leads to the next. */
PUBLIC(void, set_gate)(Engine *e, u32 part, i32 program)
{
    ITEMS(e->gates, i32)[part] = program;
    for (; program >= 0; program = ITEMS(e->tests, Test)[program].no)
        ITEMS(e->part_trees, u8)[ITEMS(e->tests, Test)[program].root] = 1;
}

PUBLIC(void, set_limits)(Engine *e, u64 states, u64 depth, u64 labels)
{
    e->limit_states = states; e->limit_depth = depth; e->limit_labels = labels;
}
