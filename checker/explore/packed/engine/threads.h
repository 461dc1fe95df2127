/* Several threads. */

static void begin_block(const Engine *e, Block *b, u64 first)
{
    b->first = first;
    b->labels = (u32)(e->level_end - first < BLOCK ? e->level_end - first : BLOCK);
}

/* Gathers the next block that nobody has; 0: there is none now. */
static int gather_ahead(Engine *e, u64 *recent)
{
    Shared *all = e->shared;
    u64 n = atomic_load(&all->claimed);
    do if (n >= atomic_load(&all->taken) + RING || e->base + n * BLOCK >= e->level_end) return 0;
    while (!atomic_compare_exchange_weak(&all->claimed, &n, n + 1));
    Block *b = &e->ring[n % RING];
    begin_block(e, b, e->base + n * BLOCK);
    atomic_store(&b->status, gather(e, b, recent, 0) ? GATHERED : UNKNOWN);
    return 1;
}

typedef struct { Engine *view; u64 *recent; } Helper;

static void *help(void *helper)
{
    Helper h = *(Helper *)helper;
    Shared *all = h.view->shared;
    u32 idle = 0;
    free(helper);
    while (!atomic_load(&all->stop)) {
        atomic_fetch_add(&all->busy, 1);
        int did = !atomic_load(&all->hold) && gather_ahead(h.view, h.recent);
        atomic_fetch_sub(&all->busy, 1);
        idle = did ? 0 : idle + 1;
        if (idle > 32) usleep(100);     /* others may have use for the processor */
        else if (idle) sched_yield();
    }
    return 0;
}

/* Fewer helpers than wanted are no harm. */
static void call_helpers(Engine *e)
{
    memcpy(e->view, e, sizeof *e);
    atomic_store(&e->shared->stop, 0);
    atomic_store(&e->shared->hold, 0);
    while (e->at_work < e->helpers) {
        Helper *h = malloc(sizeof *h);
        if (!h) return;
        *h = (Helper){ e->view, e->recents[e->at_work + 1] };
        if (pthread_create(&e->threads[e->at_work], 0, help, h)) { free(h); return; }
        e->at_work++;
    }
}

static void forget_recent(Engine *e) { if (e->recents) memset(e->recents, 0, (e->helpers + 1) * sizeof *e->recents); }

/* The next block, its steps gathered; 0 where the search has to return first. */
static int next_block(Engine *e)
{
    if (!e->ahead && e->helpers && e->level_end - e->searched >= e->least && e->settled != ~(u64)0) {
        e->ahead = 1;
        e->base = e->searched;
        atomic_store(&e->shared->claimed, 0);
        atomic_store(&e->shared->taken, 0);
        for (u32 i = 0; i < RING; i++) atomic_store(&e->ring[i].status, OPEN);
    }
    if (e->ahead && !e->at_work && e->searched > e->answered + QUIET) call_helpers(e);
    while (e->ahead) {
        e->block = &e->ring[atomic_load(&e->shared->taken) % RING];
        int status = atomic_load(&e->block->status);
        if (status == GATHERED) break;
        if (status == UNKNOWN) {            /* what is asked for is asked alone */
            hold(e);
            memset(e->recents[0], 0, sizeof *e->recents);   /* it has met what later blocks lead to */
            int did = gather(e, e->block, e->recents[0], 1);
            let_go(e);
            if (!did) return 0;
            break;
        }
        if (!gather_ahead(e, e->recents[0])) sched_yield();
    }
    if (!e->ahead) {
        e->block = &e->own;
        begin_block(e, e->block, e->searched);
        if (!gather(e, e->block, e->recents[0], 1)) return 0;
    }
    e->at_label = e->at_step = e->then = e->found = 0;
    return 1;
}

static void block_done(Engine *e)
{
    if (!e->ahead) return;
    atomic_store(&e->block->status, OPEN);
    atomic_fetch_add(&e->shared->taken, 1);
    if (e->searched < e->level_end) return;
    send_home(e);
    e->ahead = 0;
}
