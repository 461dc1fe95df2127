/* A search's beginning and end. */

PUBLIC(Engine *, engine_new)(void)
{
    Engine *e = aligned_new(sizeof *e);
    if (!e) return 0;
    memset(e, 0, sizeof *e);
    e->bounds = -2;
    e->limit_states = e->limit_depth = e->limit_labels = ~(u64)0;
    e->block = &e->own;
    return e;
}

PUBLIC(void, engine_free)(Engine *e)
{
    send_home(e);
    Pool *all[] = { &e->atoms, &e->kids, &e->trees, &e->tests, &e->leaves, &e->members, &e->changes, &e->writes, &e->claims,
        &e->masks, &e->uses, &e->roots, &e->on_states, &e->on_stuck, &e->active, &e->states, &e->table, &e->parents,
        &e->label_states, &e->label_next, &e->first_label, &e->last_label, &e->lefts, &e->begins, &e->targets,
        &e->edge_changes, &e->level_states, &e->level_labels, &e->joints, &e->tables, &e->joined, &e->cell_first,
        &e->cell_states, &e->cells, &e->cell_masks, &e->between, &e->own.steps, &e->own.way, &e->leaf_uses,
        &e->joined_uses, &e->alike, &e->slices, &e->numbers, &e->part_trees, &e->leaps, &e->leap_of, &e->leap_tables,
        &e->asked, &e->groups, &e->grouped, &e->group_tables };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) pool_free(all[i]);
    for (u32 i = 0; i < e->processes; i++) { pool_free(&e->out[i].targets); pool_free(&e->out[i].parents); pool_free(&e->out[i].lefts); }
    free(e->out); pool_free(&e->owners);
    for (u32 i = 0; e->ring && i < RING; i++) { pool_free(&e->ring[i].steps); pool_free(&e->ring[i].way); }
    free(e->recents);
    aligned_free(e->ring); aligned_free(e->shared); aligned_free(e->view); aligned_free(e);
}
