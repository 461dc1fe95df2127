/* A search's beginning and end, and the threads that help it. These also work while what was asked for is worked out. */

/* Helpers end, before what they read is changed. */
static void send_home(Engine *e)
{
    if (!e->at_work) return;
    atomic_store(&e->shared->stop, 1);
    while (e->at_work) pthread_join(e->threads[--e->at_work], 0);
}

/* Memory moves that helpers read: they wait, until they are let go. */
static void hold(Engine *e)
{
    if (!e->at_work) return;
    atomic_store(&e->shared->hold, 1);
    while (atomic_load(&e->shared->busy)) sched_yield();
}

static void let_go(Engine *e)
{
    if (!e->at_work) return;
    memcpy(e->view, e, sizeof *e);
    atomic_store(&e->shared->hold, 0);
}

/* Room in a pool that helpers read. */
static int shared_room(Engine *e, Pool *p, size_t more)
{
    if (p->used + more <= p->bytes) return 1;
    hold(e);
    int had = pool_room(p, more);
    let_go(e);
    return had;
}

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
        &e->asked, &e->gates, &e->quiet, &e->chained, &e->cut_states, &e->cut_changes, &e->clears, &e->clear_of,
        &e->clear_claims, &e->clear_bits, &e->spots, &e->where, &e->books, &e->names, &e->named, &e->named_slots };
    for (u64 i = 0; i < COUNT(e->books, Pool); i++) pool_free(ITEMS(e->books, Pool) + i);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) pool_free(all[i]);
    for (u32 i = 0; e->ring && i < RING; i++) { pool_free(&e->ring[i].steps); pool_free(&e->ring[i].way); }
    free(e->recents);
    aligned_free(e->ring); aligned_free(e->shared); aligned_free(e->view); aligned_free(e);
}
