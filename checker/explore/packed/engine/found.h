/* What was found, for others to look at. */

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
    const u32 all[] = { e->what, e->part, e->class, e->test, e->probe, e->change, e->of, (u32)e->label, (u32)e->number };
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

/* The edges in the order of the states where they begin. By state where its edges begin, and where the last one's end;
 * by edge where it begins, where it leads to, and what `kinds` says of its change. */
PUBLIC(void, edges_in_order)(Engine *e, const i32 *kinds, u64 *first, i32 *sources, i32 *targets, i32 *rows)
{
    send_home(e);
    const u64 *begins = ITEMS(e->begins, u64);
    const u32 *ends = ITEMS(e->targets, u32), *changes = ITEMS(e->edge_changes, u32);
    u64 labels = COUNT(e->begins, u64);
    memset(first, 0, (e->count + 1) * sizeof(u64));
    for (u64 n = 0; n < labels; n++) first[state_of(e, n) + 1] += edges_end(e, n) - begins[n];
    for (u64 n = 0; n < e->count; n++) first[n + 1] += first[n];
    for (u64 n = 0; n < labels; n++) {
        u32 state = state_of(e, n);
        u64 at = first[state], end = edges_end(e, n);
        for (u64 i = begins[n]; i < end; i++, at++) {
            sources[at] = (i32)state;
            targets[at] = (i32)ends[i];
            rows[at] = kinds[changes[i]];
        }
        first[state] = at;
    }
    memmove(first + 1, first, e->count * sizeof(u64));  /* each is now where its own edges end */
    first[0] = 0;
}
