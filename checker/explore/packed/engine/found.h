/* The results, for others to look at, and for another process to go on from. */

PUBLIC(u64, figure)(const Engine *e, u32 which)
{
    const u64 all[] = { e->count, e->generated, e->edges, e->cut, e->searched, labels_of(e), e->depth,
        COUNT(e->level_states, u64), COUNT(e->targets, u32), e->table.bytes + e->states.bytes + e->parents.bytes
        + e->label_states.bytes + e->label_next.bytes + e->first_label.bytes + e->last_label.bytes + e->lefts.bytes
        + e->begins.bytes + e->targets.bytes + e->edge_changes.bytes + e->kids.bytes, COUNT(e->between, u32) / 3 };
    return all[which];
}

PUBLIC(u32, asks)(const Engine *e, u32 which)
{
    const u32 all[] = { e->what, e->part, e->class, e->test, e->probe, e->change, e->of, (u32)e->label, (u32)e->number,
        e->missing.attribute, e->missing.code };
    return all[which];
}

PUBLIC(const u64 *, asked_words)(const Engine *e) { return e->words; }

PUBLIC(const void *, found)(Engine *e, u32 which)
{
    send_home(e);
    tally(e);
    const void *all[] = { e->states.at, e->parents.at, e->label_states.at, e->lefts.at, e->level_states.at,
        e->level_labels.at, e->uses.at, e->first_label.at, e->label_next.at, e->cell_first.at, e->cell_states.at,
        e->between.at };
    return all[which];
}

/* What only a search that goes on needs is given back; where somebody else has the steps, these too. Which targets were
 * out of bounds the table says. */
PUBLIC(void, rest)(Engine *e, u32 steps)
{
    Pool *all[] = { &e->begins, &e->targets, &e->edge_changes, &e->last_label };
    send_home(e);
    if (!e->cut) pool_free(&e->table);
    for (u32 i = 0; steps && i < sizeof all / sizeof *all; i++) pool_free(all[i]);
    e->given = steps && e->graph;
    e->graph &= !steps;
}

/* Leaving off, and going on in another process */

static Pool *lasting(Engine *e, u32 which)
{
    Pool *all[] = { &e->states, &e->parents, &e->label_states, &e->label_next, &e->first_label, &e->last_label, &e->lefts,
        &e->begins, &e->targets, &e->edge_changes, &e->level_states, &e->level_labels, &e->uses,
        &e->cut_states, &e->cut_changes };
    return which < sizeof all / sizeof *all ? all[which] : 0;
}

/* Keeps an array in a file, which nothing else uses, from the first item on: the system writes there what memory has no
 * room for. 0: the array is not empty. */
PUBLIC(int, on_disk)(Engine *e, u32 which, int file)
{
    Pool *p = lasting(e, which);
    if (!p || p->at) return 0;
    p->file = file + 1;
    return 1;
}

/* What is to be kept of a search that pauses: an array, or where there is none of that number, nothing; its bytes. */
PUBLIC(const void *, kept)(Engine *e, u32 which, u64 *bytes)
{
    send_home(e);
    tally(e);
    Pool *p = lasting(e, which);
    *bytes = p ? p->used : 0;
    return p && !p->at ? (const void *)"" : p ? p->at : 0;
}

PUBLIC(int, keep)(Engine *e, u32 which, const void *from, u64 bytes)
{
    Pool *p = lasting(e, which);
    if (!p) return 0;
    p->used = 0;
    if (!pool_room(p, bytes)) return 0;
    if (bytes) memcpy(p->at, from, bytes);
    p->used = bytes;
    return 1;
}

static u64 *counter(Engine *e, u32 which)
{
    u64 *all[] = { &e->count, &e->generated, &e->edges, &e->cut, &e->searched, &e->level_end, &e->depth };
    return all[which];
}

/* A number that is to be kept besides. */
PUBLIC(u64, kept_number)(Engine *e, u32 which) { return *counter(e, which); }
PUBLIC(void, keep_number)(Engine *e, u32 which, u64 n) { *counter(e, which) = n; }

/* Goes on from what was kept. */
PUBLIC(int, go_on)(Engine *e)
{
    u64 slots = 1 << 14;
    while (4 * (e->count + 1) > 3 * slots) slots = slots < LEAPING ? 2 * slots : slots + slots / 3;
    e->settled = e->answered = e->searched;
    return table_new(e, slots);
}
