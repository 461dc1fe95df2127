/* Instances that are alike: of the states that differ in which is which, the one whose slices are in order. */

#define MOST_ALIKE 20
#define KEYS 8

/* A group, after those that there are; `begin` forgets them. `parts` are the atoms of all instances, part by part; the
 * ranks of each part's values come one after the other. 0: no memory. */
PUBLIC(int, set_alike)(Engine *e, u32 begin, u32 instances, u32 parts, const u32 *atoms, const u32 *values, const u32 *ranks)
{
    send_home(e);
    if (begin) e->alike.used = e->slices.used = e->numbers.used = 0;
    Alike a = { instances, (u32)COUNT(e->slices, Slice), parts, 1 };
    u32 free = 64;
    for (u32 p = 0; p < parts; p++) {
        u32 bits = 1;
        while (values[p] > (u64)1 << bits) bits++;
        if (bits > free) { a.keys++; free = 64; }
        Slice s = { (u32)COUNT(e->numbers, u32), 0, a.keys - 1, free -= bits };
        s.ranks = s.atoms + instances;
        for (u32 i = 0; i < instances; i++) if (!PUSH(e->numbers, u32, *atoms++)) return 0;
        for (u32 v = 0; v < values[p]; v++) if (!PUSH(e->numbers, u32, *ranks++)) return 0;
        if (!PUSH(e->slices, Slice, s)) return 0;
    }
    return a.keys <= KEYS && PUSH(e->alike, Alike, a);
}

static inline u64 code_of(Atom a, const u64 *s) { return s[a.word] >> a.shift & (((u64)1 << a.bits) - 1); }

static void put_in_order(const Engine *e, u64 *s)
{
    const u32 *numbers = ITEMS(e->numbers, u32);
    for (u32 g = 0; g < COUNT(e->alike, Alike); g++) {
        Alike a = ITEMS(e->alike, Alike)[g];
        const Slice *parts = ITEMS(e->slices, Slice) + a.first;
        u64 keys[MOST_ALIKE][KEYS];
        u32 order[MOST_ALIKE], moved = 0;
        for (u32 i = 0; i < a.instances; i++) for (u32 k = 0; k < a.keys; k++) keys[i][k] = 0;
        for (u32 p = 0; p < a.parts; p++)
            for (u32 i = 0; i < a.instances; i++)
                keys[i][parts[p].word] |= (u64)numbers[parts[p].ranks + code_of(ATOM(e, numbers[parts[p].atoms + i]), s)] << parts[p].shift;
        for (u32 i = 0; i < a.instances; i++) {
            u32 at = i;
            for (; at; at--) {
                const u64 *before = keys[order[at - 1]];
                u32 k = 0;
                while (k < a.keys && before[k] == keys[i][k]) k++;
                if (k == a.keys || before[k] < keys[i][k]) break;
                order[at] = order[at - 1];
            }
            order[at] = i;
            moved |= at != i;
        }
        if (!moved) continue;
        u64 was[W];
        memcpy(was, s, sizeof was);
        for (u32 p = 0; p < a.parts; p++)
            for (u32 i = 0; i < a.instances; i++) {
                Atom to = ATOM(e, numbers[parts[p].atoms + i]);
                u64 code = code_of(ATOM(e, numbers[parts[p].atoms + order[i]]), was);
                s[to.word] = (s[to.word] & ~((((u64)1 << to.bits) - 1) << to.shift)) | code << to.shift;
            }
    }
}
