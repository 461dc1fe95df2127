/* Several processes: each keeps the states whose hashes fall to it. A level is searched by all, and what they find is
 * sent to whom it belongs; when all have taken in what was found, the next level begins. */

PUBLIC(int, set_processes)(Engine *e, u32 me, u32 processes)
{
    e->me = me;
    e->out = calloc(processes, sizeof *e->out);
    e->processes = e->out ? processes : 0;
    return e->out && room(e);
}

PUBLIC(u32, owner_of)(const Engine *e, const u64 *s) { return owner(e, hash_of(s)); }

static void empty_outboxes(Engine *e)
{
    for (u32 i = 0; i < e->processes; i++) e->out[i].targets.used = e->out[i].parents.used = e->out[i].lefts.used = 0;
}

/* Begins a level: how many labels it has here, or -1: no memory. */
PUBLIC(int64_t, begin_level)(Engine *e)
{
    if (e->level_states.used) e->depth++;
    e->level_end = labels_of(e);
    if (!PUSH(e->level_states, u64, e->count) || !PUSH(e->level_labels, u64, e->level_end)) return -1;
    empty_outboxes(e);
    return (int64_t)(e->level_end - e->searched);
}

/* The states found for a process: where, and how many; `which` is 0 for words, 1 for labels, 2 for faults left. */
PUBLIC(const void *, outbox)(const Engine *e, u32 process, u32 which, u64 *count)
{
    const Outbox *o = &e->out[process];
    const Pool *all[] = { &o->targets, &o->parents, &o->lefts };
    *count = COUNT(o->parents, u32);
    return all[which]->at;
}

/* Takes in what a process has found; DONE, or what has to be answered first: then it is to be called again. */
PUBLIC(u32, take_in)(Engine *e, u64 n, const u64 *targets, const u32 *parents, const u64 *lefts, u32 from)
{
    for (; e->taken_in < n || e->unchecked; e->taken_in++) {
        u64 i = e->taken_in;
        if (!e->unchecked) {
            const u64 *s = targets + i * W;
            u64 h = hash_of(s), at = 0;
            u32 number = find(e, s, h, &at);
            int fresh = number == NONE;
            if (fresh && (number = insert(e, s, h, at)) == NONE) return e->what = NO_MEMORY;
            u64 before = labels_of(e);
            if ((e->kinds || fresh) && !label_add(e, number, e->kinds ? lefts[i] : 0, parents[i])) return e->what = NO_MEMORY;
            if (labels_of(e) > before && !PUSH(e->owners, u32, from)) return e->what = NO_MEMORY;
            e->unchecked = fresh && !is_clear(e, s);
        }
        if (e->unchecked && !check(e)) return e->what;
        e->unchecked = 0;
    }
    e->taken_in = 0;
    return e->what = DONE;
}

/* Where a label comes from: the words of its state, and the label before with who keeps it; NONE: it is a first one. */
PUBLIC(u32, came_from)(const Engine *e, u32 label, u64 *words, u32 *process)
{
    memcpy(words, STATE(e, state_of(e, label)), W * sizeof(u64));
    *process = ITEMS(e->owners, u32)[label];
    return ITEMS(e->parents, u32)[label];
}

PUBLIC(u32, first_label)(const Engine *e, u32 state) { return e->kinds ? ITEMS(e->first_label, u32)[state] : state; }
