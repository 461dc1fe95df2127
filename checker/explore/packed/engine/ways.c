/* The longest ways on a finished graph, and what brings its edges together. Of state n, the edges are those from `first[n]`
 * to `first[n + 1]`; the row of an edge is a number of 1, 2 or 4 bytes, and tables by row have a byte for each. A layer is
 * a list of states each of which comes after all that its edges lead to, but for itself. */

#include <stdint.h>
#include "platform.h"

typedef int64_t i64;
typedef int32_t i32;
typedef uint32_t u32;
typedef uint8_t u8;

typedef struct { const void *at; i32 size; } Rows;

static inline u32 row_of(Rows rows, i64 e)
{
    if (rows.size == 1) return ((const u8 *)rows.at)[e];
    return rows.size == 2 ? ((const uint16_t *)rows.at)[e] : ((const u32 *)rows.at)[e];
}

static inline void put_row(void *rows, i32 size, i64 e, u32 row)
{
    if (size == 1) ((u8 *)rows)[e] = (u8)row;
    else if (size == 2) ((uint16_t *)rows)[e] = (uint16_t)row;
    else ((u32 *)rows)[e] = row;
}

static inline void raise_to(i32 *at, i32 value) { if (*at < value) *at = value; }

/* The number of edges whose row is kept. */
EXPORT i64 ways_count(i64 edges, const void *rows, i32 size, const u8 *kept)
{
    Rows all = { rows, size };
    i64 count = 0;
    for (i64 e = 0; e < edges; e++) count += kept[row_of(all, e)];
    return count;
}

/* The edges whose row is kept, in their order; there is room for one more, as each is written before that is asked. */
EXPORT void ways_select(i64 states, const i64 *first, const i32 *targets, const void *rows, i32 size, const u8 *kept,
    i64 *new_first, i32 *new_targets, void *new_rows)
{
    Rows all = { rows, size };
    i64 to = 0;
    for (i64 n = 0; n < states; n++) {
        new_first[n] = to;
        for (i64 e = first[n]; e < first[n + 1]; e++) {
            u32 row = row_of(all, e);
            new_targets[to] = targets[e];
            put_row(new_rows, size, to, row);
            to += kept[row];
        }
    }
    new_first[states] = to;
}

/* The edges of labels, of which several may have one state, as those of their states. `order` has the labels by state;
 * `changes` has of each edge its change, and `row_of_change` the row of each; `sizes` is all 0 before, and has of each
 * state how many edges it has after. */
EXPORT void ways_joined(i64 labels, const i32 *order, const i32 *state_of, const i64 *first, const i32 *targets,
    const u32 *changes, const void *row_of_change, i32 size, i64 *sizes, i32 *new_targets, void *new_rows)
{
    Rows by_change = { row_of_change, size };
    i64 to = 0;
    for (i64 i = 0; i < labels; i++) {
        i64 label = order ? order[i] : i;
        sizes[state_of[label]] += first[label + 1] - first[label];
        for (i64 e = first[label]; e < first[label + 1]; e++, to++) {
            new_targets[to] = targets[e];
            put_row(new_rows, size, to, row_of(by_change, changes[e]));
        }
    }
}

/* The states of a graph in layers, from the back, given its edges by their ends: those that end in state n begin in the
 * states from `sources[into[n]]` on. `leaving` has of each state how many edges lead from it to others; what is not 0 in
 * the end, is of a state that leads to a cycle. `order` gets the states; returns how many layers there are, and in `ends`
 * where each ends, which has room for as many as states and is 0 before. */
EXPORT i64 ways_layers(i64 states, const i64 *into, const i32 *sources, i64 *leaving, i32 *order, i64 *ends)
{
    i64 begin = 0, end = 0, layers = 0;
    for (i64 n = 0; n < states; n++) if (!leaving[n]) order[end++] = (i32)n;
    while (begin < end) {
        i64 next = end;
        ends[layers++] = end;
        for (; begin < end; begin++) {
            i32 n = order[begin];
            for (i64 e = into[n]; e < into[n + 1]; e++)
                if (!--leaving[sources[e]]) order[next++] = sources[e];
        }
        end = next;
    }
    return layers;
}

/* By state of a layer the most steps to where no edge leads on, and the most that are `counted` by row on the way: two
 * numbers each, -1 for none. What leads to an unknown state is unknown. */
EXPORT void ways_longest(i64 count, const i32 *layer, const i64 *first, const i32 *targets, const void *rows, i32 size,
    const u8 *counted, i32 *longest, u8 *unknown)
{
    Rows all = { rows, size };
    for (i64 i = 0; i < count; i++) {
        i64 n = layer[i];
        i32 steps = 0, met = 0;
        for (i64 e = first[n]; e < first[n + 1]; e++) {
            i64 t = targets[e];
            if (t == n) continue;
            unknown[n] |= unknown[t];
            raise_to(&steps, 1 + (longest[2 * t] > 0 ? longest[2 * t] : 0));
            raise_to(&met, counted[row_of(all, e)] + (longest[2 * t + 1] > 0 ? longest[2 * t + 1] : 0));
        }
        if (unknown[n]) continue;
        longest[2 * n] = steps;
        longest[2 * n + 1] = met;
    }
}

/* By state of a layer, all of which are `within` some states, and for each mode that may hold there, the worst that comes
 * after it leaves these in that mode: two numbers for each mode in the row `place[n]` of `worst`. What comes after a state
 * that is not within them has two numbers in `after`. `holds` has the modes of each state as bits. */
EXPORT void ways_worst(i64 count, const i32 *layer, const i64 *first, const i32 *targets, const i32 *place, i32 modes,
    const u32 *holds, const i32 *after, i32 *worst)
{
    for (i64 i = 0; i < count; i++) {
        i64 n = layer[i];
        i32 *mine = worst + (i64)place[n] * 2 * modes;
        for (i64 e = first[n]; e < first[n + 1]; e++) {
            i64 t = targets[e];
            if (place[t] < 0) {
                for (i32 m = 0; m < modes; m++)
                    if (holds[n] >> m & 1) { raise_to(mine + 2 * m, after[2 * t]); raise_to(mine + 2 * m + 1, after[2 * t + 1]); }
            } else if (t != n) {
                const i32 *theirs = worst + (i64)place[t] * 2 * modes;
                for (i32 c = 0; c < 2 * modes; c++) raise_to(mine + c, theirs[c]);
            }
        }
    }
}

/* Groups of what stopped: those of one kind in states that look alike. `number` has for each look and kind together the
 * number of its group, and is -1 before; groups are numbered in that order. Returns how many there are; `example` gets of
 * each the first that stopped so, and `group` of all the number of theirs. */
EXPORT i64 ways_groups(i64 count, const i32 *states, const i32 *kind_of, i64 kinds, const i64 *look, i64 keys, i32 *number,
    i32 *example, i32 *group)
{
    i32 groups = 0;
    for (i64 i = count; i-- > 0;) number[look[states[i]] * kinds + kind_of[i]] = (i32)i;
    for (i64 key = 0; key < keys; key++)
        if (number[key] >= 0) { example[groups] = number[key]; number[key] = groups++; }
    for (i64 i = 0; i < count; i++) group[i] = number[look[states[i]] * kinds + kind_of[i]];
    return groups;
}

/* By group the worst of the rows of its members, of so many numbers; of a member whose `row` is negative nothing. */
EXPORT void ways_gather(i64 count, const i32 *rows, const i32 *groups, i32 width, const i32 *worst, i32 *total)
{
    for (i64 i = 0; i < count; i++) {
        if (rows[i] < 0) continue;
        const i32 *theirs = worst + (i64)rows[i] * width;
        i32 *mine = total + (i64)groups[i] * width;
        for (i32 c = 0; c < width; c++) raise_to(mine + c, theirs[c]);
    }
}
