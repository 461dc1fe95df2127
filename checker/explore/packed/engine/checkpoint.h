/* Leaving off, and going on in another process. */

static Pool *lasting(Engine *e, u32 which)
{
    Pool *all[] = { &e->states, &e->parents, &e->label_states, &e->label_next, &e->first_label, &e->last_label, &e->lefts,
        &e->begins, &e->targets, &e->edge_changes, &e->level_states, &e->level_labels, &e->uses };
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
