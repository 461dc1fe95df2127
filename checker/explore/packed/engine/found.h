/* What was found, for others to look at. */

u64 figure(const Engine *e, u32 which)
{
    const u64 all[] = { e->count, e->generated, e->edges, e->cut, e->searched, labels_of(e), e->depth,
        COUNT(e->level_states, u64), COUNT(e->targets, u32), e->table.bytes + e->states.bytes + e->parents.bytes
        + e->label_states.bytes + e->label_next.bytes + e->first_label.bytes + e->last_label.bytes + e->lefts.bytes
        + e->begins.bytes + e->targets.bytes + e->edge_changes.bytes + e->kids.bytes, COUNT(e->begins, u64), COUNT(e->between, u32) / 3 };
    return all[which];
}

u32 asks(const Engine *e, u32 which)
{
    const u32 all[] = { e->what, e->part, e->class, e->test, e->probe, e->change, e->of, (u32)e->label, (u32)e->number };
    return all[which];
}

const u64 *asked_words(const Engine *e) { return e->words; }

const void *found(Engine *e, u32 which)
{
    send_home(e);
    tally(e);
    const void *all[] = { e->states.at, e->parents.at, e->label_states.at, e->lefts.at, e->begins.at, e->targets.at,
        e->edge_changes.at, e->level_states.at, e->level_labels.at, e->uses.at, e->first_label.at, e->label_next.at,
        e->cell_first.at, e->cell_states.at, e->between.at };
    return all[which];
}
