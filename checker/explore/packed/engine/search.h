/* The search: steps are taken one after the other. */

/* One step of a label; 0 where the search has to return first. */
static inline int expand(Engine *e, const Step *step, u64 label, u32 number, u64 left, int before)
{
    const Change *c = ITEMS(e->changes, Change) + step->change;
    u64 then = left, at = 0;
    int fresh = !before;
    if (c->cost) {
        then = left - c->cost;
        fresh = 1;
        if (before)
            for (u32 n = ITEMS(e->first_label, u32)[number]; n != NONE && n < label; n = ITEMS(e->label_next, u32)[n])
                if (affords(ITEMS(e->lefts, u64)[n], c->cost)) { fresh = 0; break; }
    }
    u32 target = step->number != NONE ? step->number : find(e, step->target, step->hash, &at);
    int inside = target != NONE;
    if (!inside) {
        if (!fresh) return 1;
        int yes = holds(e, e->bounds, step->target, &e->test);
        if (yes < 0) {
            e->what = CLAIM; e->of = OF_BOUNDS; e->change = step->change; e->label = label; e->number = number;
            memcpy(e->words, step->target, W * sizeof(u64));
            return 0;
        }
        inside = yes;
    }
    if (fresh && inside && !step->step_clear) {
        const u64 *s = STATE(e, number);
        const Asked *all = ITEMS(e->asked, Asked) + c->claims - 1;
        e->change = step->change; e->label = label; e->number = number;
        if (!asked(e, ITEMS(e->claims, Claim) + all->first, all->count, s, OF_STEP)) return 0;
    }
    if (fresh) {
        e->found += !c->fault;
        e->generated++;
        if (!e->brief) ITEMS(e->uses, u64)[step->change]++;
        if (!inside) {
            e->cut++;
            if (!e->graph || (PUSH(e->cut_states, u32, number) && PUSH(e->cut_changes, u32, step->change))) return 1;
            e->what = NO_MEMORY;
            return 0;
        }
    }
    int known = target != NONE;
    if (!known) {
        target = insert(e, step->target, step->hash, at);
        if (target == NONE) { e->what = NO_MEMORY; return 0; }
        if (!step->new_clear) e->phase = CHECK;
    }
    if ((e->kinds || !known) && !label_add(e, target, then, (u32)label)) { e->what = NO_MEMORY; return 0; }
    if (!fresh) return 1;
    e->edges++;
    if (e->graph && !(PUSH(e->targets, u32, target) && PUSH(e->edge_changes, u32, step->change))) { e->what = NO_MEMORY; return 0; }
    return 1;
}

/* Asks the claims about the newest state. */
static int check(Engine *e)
{
    u64 n = e->count - 1;
    e->number = n;
    return asked(e, ITEMS(e->on_states, Claim), (u32)COUNT(e->on_states, Claim), STATE(e, n), OF_STATE);
}

/* Asks the claims about a first state. */
PUBLIC(u32, check_first)(Engine *e) { return check(e) ? DONE : e->what; }

/* How often leaves were come to, where steps are only counted. */
static void count_way(Engine *e, u32 k)
{
    const Block *b = e->block;
    for (u32 p = b->way_of[k]; p < b->way_of[k + 1]; p++) {
        u32 at = ITEMS(b->way, u32)[p];
        (at & 1 ? ITEMS(e->joined_uses, u64) : ITEMS(e->leaf_uses, u64))[at >> 1]++;
    }
}

static u32 searched(Engine *e, double slice)
{
    double until = seconds() + slice;
    u32 turns = 0;
    for (;;) {
        if (e->phase == GATHER) {
            if (e->searched == labels_of(e)) return e->what = DONE;
            if (e->searched == e->level_end || !e->level_states.used) {
                if (e->level_states.used) e->depth++;
                e->level_end = labels_of(e);
                if (!PUSH(e->level_states, u64, e->count) || !PUSH(e->level_labels, u64, e->level_end)) return e->what = NO_MEMORY;
            }
            if (e->depth >= e->limit_depth) return e->what = AT_DEPTH;
            if (slice <= 0 || (++turns % 64 == 0 && seconds() > until)) return e->what = PAUSE;
#if PEXT
            if (e->searched > e->claims_grown + CLEARING && !clears_last(e) && !clears_new(e)) return e->what = NO_MEMORY;
            if (!e->ahead && e->settled != ~(u64)0 && e->searched > e->settled + SETTLED && !settle(e)) return e->what = NO_MEMORY;
#endif
            if (!next_block(e)) return e->what;
            e->phase = EXPAND;
        }
        Block *b = e->block;
        while (e->at_label < b->labels) {
            u64 label = e->searched;
            u32 number = state_of(e, label);
            u64 left = left_of(e, label);
            u32 begin = b->begins_of[e->at_label], end = b->begins_of[e->at_label + 1];
            if (e->phase == CHECK) {
                if (!check(e)) return e->what;
                e->phase = EXPAND;
            }
            int before = met_before(e, label, number);
            if (e->phase == EXPAND) {
                if (!e->then) {
                    if (e->count >= e->limit_states || e->searched >= e->limit_labels) return e->what = AT_STATES;
                    if (e->graph && !PUSH(e->begins, u64, COUNT(e->targets, u32))) return e->what = NO_MEMORY;
                    e->then = 1; e->at_step = begin; e->found = b->skipped[e->at_label];
                    e->generated += e->found; e->edges += e->found;
                    if (e->brief) count_way(e, e->at_label);
                    if (before && e->graph && nothing_new(e, number, label, left)) {
                        if (!follow(e, label, number, left)) return e->what = NO_MEMORY;
                        e->at_step = end; e->found = 1; b->faulty[e->at_label] = 0;
                    }
                }
                while (e->at_step < end) {
                    if (!expand(e, ITEMS(b->steps, Step) + e->at_step, label, number, left, before)) return e->what;
                    e->at_step++;
                    if (e->phase == CHECK) {
                        if (!check(e)) return e->what;
                        e->phase = EXPAND;
                    }
                }
                e->phase = STUCK;
                if (b->faulty[e->at_label]) {
                    e->found++;
                    b->faulty[e->at_label] = 0;
                    e->what = FAULT; e->number = number; e->label = label; e->part = b->fault_leaf[e->at_label];
                    return e->what;
                }
            }
            if (!e->found && !before) {
                e->number = number; e->label = label;
                if (!asked(e, ITEMS(e->on_stuck, Claim), (u32)COUNT(e->on_stuck, Claim), STATE(e, number), OF_STUCK)) return e->what;
            }
            e->phase = EXPAND; e->then = 0;
            e->at_label++; e->searched++;
        }
        block_done(e);
        e->phase = GATHER;
    }
}

/* Searches for so long, and returns what it needs, has found, or stopped at. PAUSE is between two blocks: nothing is
 * then half done; with 0 seconds the search goes on to the end of its block. */
PUBLIC(u32, search)(Engine *e, double slice)
{
    u32 what = searched(e, slice);
    if (what != STEPS && what != CLAIM && what != MOVE) send_home(e);   /* else whoever answers sees to it */
    return what;
}
