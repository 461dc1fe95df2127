/* Threads that help, and who changes what they read. They also work while what was asked for is worked out. */

/* Helpers end, before what they read is changed. */
static void send_home(Engine *e)
{
    if (!e->at_work) return;
    atomic_store(&e->shared->stop, 1);
    while (e->at_work) thread_end(e->threads[--e->at_work]);
}

/* Memory moves that helpers read: they wait, until they are let go. */
static void hold(Engine *e)
{
    if (!e->at_work) return;
    atomic_store(&e->shared->hold, 1);
    while (atomic_load(&e->shared->busy)) thread_yield();
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
