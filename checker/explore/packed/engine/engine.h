/* Breadth-first search over packed states, by decision trees that are filled on demand.
 *
 * A state is W words of 64 bits; an atom is a field of bits in one of them. What may happen in a state, and what holds
 * in it, is looked up in decision trees: a node asks for one atom, its children are the atom's values, a leaf is the
 * answer. Where a tree has no answer yet, `search` returns to its caller, who works the answer out by the reference
 * semantics, hangs it in with `hang`, and calls again. Keys are the states themselves, never hashes of them.
 *
 * Compiled once for each of some numbers of words W, and where processors may have BMI2 (PEXT is 1), for these once more;
 * SUFFIX tells the functions apart. The top bit of the first word is set in every state, so that no state is 0.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "platform.h"

typedef uint64_t u64;
typedef uint32_t u32;
typedef int32_t i32;
typedef uint16_t u16;
typedef uint8_t u8;

#define JOIN(name, suffix) name##suffix
#define JOINED(name, suffix) JOIN(name, suffix)
#define PUBLIC(type, name) EXPORT type JOINED(name, SUFFIX)     /* a function that packed/library.py calls */
#define PRESENT ((u64)1 << 63)
#define RECENT 8192         /* states that were met last, told apart without the table: it is far away, they are near */
#define JOINT 12            /* bits of the states that parts see which are looked up together */
#define SETTLED 4096        /* labels after which the trees are taken to have been asked about most */
#define BLOCK 32            /* labels that are expanded together, so that memory is asked for ahead of its use */
#define LEAPING (1 << 24)    /* slots up to which the table grows by leaps */
#define LEAPS 256           /* places in programs of claims about states from which several tests are answered together */
#define CLEAR 14            /* bits of the states that claims about steps see which are looked up together */
#define CLEARING 128        /* labels after which the trees of claims are taken not to grow for a while */
#define QUIET 64            /* labels after an answer from which on helpers are called */
#define RING 64             /* blocks that are gathered ahead by several threads */
#define HELPERS 15          /* threads at most, besides the one that searches */
#define MOST_ALIKE 20       /* instances of a group that are alike */
#define INSTANCES 64        /* of all such groups */
#define SLOTS 6             /* instances that one value is of */
#define NAMES 64            /* instances that one value names */
#define KINDS 16            /* of the instances in one attribute that refinement tells apart */
#define GUARDS 0x8080808080808080ULL
#define NONE 0xffffffffu

enum { DONE, STEPS, CLAIM, FIRED, FAULT, PAUSE, AT_STATES, AT_DEPTH, NO_MEMORY, MOVE };
enum { GATHER, EXPAND, CHECK, STUCK };
enum { OF_STATE, OF_STEP, OF_BOUNDS, OF_STUCK, OF_GATE };
enum { OPEN, GATHERED, UNKNOWN };

#if PEXT && defined(__clang__)
#pragma clang attribute push(__attribute__((target("bmi,bmi2,popcnt"))), apply_to = function)
#elif PEXT && defined(__GNUC__)
#pragma GCC target("bmi,bmi2,popcnt")
#endif

#include "memory.h"
#include "search_state.h"
#include "lifetime.h"
#include "trees.h"
#include "model.h"
#include "table.h"
#include "alike.h"
#include "claims.h"
#include "together.h"
#include "clears.h"
#include "gather.h"
#include "threads.h"
#include "search.h"
#include "layout.h"
#include "found.h"
#include "survey.h"

#if PEXT && defined(__clang__)
#pragma clang attribute pop
#endif
