/* Algorithms on a finished graph. Of state n, the edges are those from `first[n]` to `first[n + 1]`; of edges, those alone
 * count that are `kept`, if it is not 0. They take a few bytes for each state besides what the caller gives them. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "platform.h"

typedef int64_t i64;
typedef int32_t i32;
typedef uint32_t u32;
typedef uint8_t u8;

#define EACH(e, n) for (i64 e = first[n]; e < first[(n) + 1]; e++) if (!kept || kept[e])
#define DONE 0x80000000u
#define SWEEPS 64

/* The positions of keys in their order, equal ones as they come; `begins` has room for `size` + 1 numbers, all 0. */
EXPORT void graph_order(i64 count, const i32 *keys, i64 size, i64 *begins, i32 *order)
{
    for (i64 i = 0; i < count; i++) begins[keys[i] + 1]++;
    for (i64 k = 0; k < size; k++) begins[k + 1] += begins[k];
    for (i64 i = 0; i < count; i++) order[begins[keys[i]]++] = (i32)i;
}

/* By target, the sources of edges: those of state n are then from `into[n]` to `into[n + 1]`; `into` is all 0 before. */
EXPORT void graph_backward(i64 states, const i64 *first, const i32 *targets, const u8 *kept, i64 *into, i32 *sources)
{
    for (i64 n = 0; n < states; n++) EACH(e, n) into[targets[e]]++;
    for (i64 n = 0, sum = 0; n <= states; n++) into[n] = sum += into[n];
    for (i64 n = states; n-- > 0;)
        for (i64 e = first[n + 1]; e-- > first[n];) if (!kept || kept[e]) sources[--into[targets[e]]] = (i32)n;
}

/* Marks what edges lead to from marked states. 0: no memory. */
EXPORT int graph_reached(i64 states, const i64 *first, const i32 *targets, const u8 *kept, u8 *marks)
{
    i32 *open = malloc(((size_t)states + 1) * sizeof *open);
    i64 top = 0;
    if (!open) return 0;
    for (i64 n = 0; n < states; n++) if (marks[n]) open[top++] = (i32)n;
    while (top) {
        i64 n = open[--top];
        EACH(e, n) if (!marks[targets[e]]) { marks[targets[e]] = 1; open[top++] = targets[e]; }
    }
    free(open);
    return 1;
}

/* Marks the states from which edges lead to marked ones, all of these among some (0: all). States are numbered breadth
 * first, so few sweeps over them from the last to the first are enough. 0: they were not. */
EXPORT int graph_leading(i64 states, const i64 *first, const i32 *targets, const u8 *kept, const u8 *among, u8 *marks)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        int found = 0;
        for (i64 n = states; n-- > 0;) {
            if (marks[n] || (among && !among[n])) continue;
            EACH(e, n) if (marks[targets[e]] && (!among || among[targets[e]])) { marks[n] = 1; found = 1; break; }
        }
        if (!found) return 1;
    }
    return 0;
}

/* The number of strongly connected components, and each state's; -1: no memory. Pearce, "A space-efficient algorithm for
 * finding strongly connected components", 2016: `of` is the least number of a state that is not done which a state is
 * known to reach. The states on the way stand at the end of `stack`, those left behind open at its beginning. */
EXPORT i64 graph_components(i64 states, const i64 *first, const i32 *targets, const u8 *kept, u32 *of)
{
    u32 *at = calloc((size_t)states + 1, sizeof *at), *stack = malloc(((size_t)states + 1) * sizeof *stack);
    u8 *inner = calloc((size_t)states + 1, 1);
    u32 met = 1, count = 0;
    i64 open = 0, way = states;
    memset(of, 0, (size_t)states * sizeof *of);
    for (i64 root = 0; at && stack && inner && root < states; root++) {
        if (of[root]) continue;
        stack[--way] = (u32)root;
        while (way < states) {
            u32 n = stack[way];
            i64 edges = first[n + 1] - first[n];
            int deeper = 0;
            if (!of[n]) of[n] = met++;
            for (; at[n] < edges; at[n]++) {
                i64 e = first[n] + at[n];
                if (kept && !kept[e]) continue;
                u32 target = (u32)targets[e];
                if (!of[target]) { stack[--way] = target; deeper = 1; break; }
                if (of[target] < of[n]) { of[n] = of[target]; inner[n] = 1; }
            }
            if (deeper) continue;
            way++;
            if (inner[n]) { stack[open++] = n; continue; }
            for (met--; open && of[stack[open - 1]] >= of[n]; met--) of[stack[--open]] = DONE | count;
            of[n] = DONE | count++;
        }
    }
    int had = at && stack && inner;
    for (i64 n = 0; n < states; n++) of[n] &= ~DONE;
    free(at); free(stack); free(inner);
    return had ? (i64)count : -1;
}
