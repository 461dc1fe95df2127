/* The state of a search. */

typedef struct { u8 word, shift, bits; } Atom;
typedef struct { u32 root; i32 yes, no; } Test;             /* of a program; targets below 0 are -1: no, -2: yes */
typedef struct { u32 first, count, fault; } Leaf;           /* changes, and whether the specification is at fault */
typedef struct { u32 first_write, writes; u64 cost; u32 fault, tag, claims; } Change;    /* `claims`: an Asked */
typedef struct { u32 atom, code; } Write;
typedef struct { u32 probe; i32 program; } Claim;
typedef struct { u32 first, count, own, owned; } Asked;     /* what is claimed of a kind of step; after it, those that are not quiet */
typedef struct { u32 instances, first, parts, keys, begin; } Alike; /* a group of instances that are alike: its slices' parts */
typedef struct { u32 atoms, ranks, word, shift; } Slice;    /* a part of every slice: where its numbers are, and its place in keys */
/* A value that is not in slices: its atom, the attribute, the instances that it is of, and where it is for others. */
typedef struct { u32 atom, attribute, table, count; u8 of[SLOTS], kinds[SLOTS]; u32 strides[SLOTS]; u64 mask; } Spot;
typedef struct { u64 about, label, mask; u32 names, skeleton, count; } Value;   /* of an attribute; names, then their kinds */
typedef struct { u32 attribute, skeleton, count, names, code; } Named;  /* the value of a skeleton and names in this order */
typedef struct { u32 attribute, code; u8 to[INSTANCES]; } Missing;      /* a value that a permutation makes of another */
typedef struct { u32 first, end, joined; u64 table, masks[W]; } Joint;  /* parts that are looked up together */
typedef struct { u64 table, masks[W]; } Leap;               /* tests of a program that are answered together */
typedef struct { u32 first, count; u64 table, masks[W]; } Clear;    /* claims about steps that are looked up together */
typedef struct { u32 first, count, loops; } Joined;         /* changes; after them those that change nothing */
/* `number` is NONE where the target is not known; `new_clear` says then whether no claim about states has anything to say
 * of it, and `step_clear` whether no claim about steps has anything to say of the step. `of` is the label's position in
 * its block. */
typedef struct { u64 hash; u32 change, number; u16 of; u8 new_clear, step_clear; u64 target[W]; } Step;

/* The steps of a few labels, gathered before they are taken. */
typedef struct {
    Pool steps, way;                /* Step; u32, where the steps of each label are from */
    u64 first;                      /* label */
    u32 labels, begins_of[BLOCK + 1], way_of[BLOCK + 1];
    u8 faulty[BLOCK]; u32 fault_leaf[BLOCK], skipped[BLOCK];
    _Alignas(64) atomic_int status;
} Block;

/* States found that another process keeps: words of W each, the label before, the faults that are left. */

/* Messages between threads, each in a cache line of its own. */
typedef struct {
    _Alignas(64) _Atomic u64 claimed;   /* blocks that somebody gathers, or has */
    _Alignas(64) _Atomic u64 taken;     /* blocks whose steps were taken */
    _Alignas(64) atomic_int busy;       /* helpers that do not wait */
    _Alignas(64) atomic_int stop, hold; /* helpers end; they wait, as memory moves */
} Shared;

typedef struct Engine Engine;
struct Engine {
    /* the layout */
    Pool atoms;                     /* Atom */
    /* decision trees: 0 unknown; odd: a leaf's number times two, plus one; even: where the node's children are, and
     * which bits choose among them. Before the children stands the atom. */
    Pool kids, trees;               /* u64; the trees' roots */
    Pool tests;                     /* Test */
    Pool leaves, members;           /* Leaf, and the numbers of their changes (u32) */
    Pool changes, writes, claims;   /* Change, Write, Claim */
    Pool masks;                     /* u64: of each change W words that it leaves, then W that it sets */
    Pool uses;                      /* u64: how often each change was made */
    Pool leaf_uses, joined_uses;    /* u64: how often each leaf was come to, if brief; not yet in `uses` */
    u32 parts, classes;
    Pool part_trees;                /* u8: of each tree whether it is a part's */
    Pool joints, tables, joined;    /* Joint; u32, of each its leaves plus one; Joined */
    u64 settled, answered;          /* the labels from which on no part's tree has grown, or been given an answer */
    Pool roots;                     /* u32: of each part, for each class of faults left, a tree */
    Pool gates;                     /* i32: of each part, the program that says whether it may have steps at all */
    Pool on_states, on_stuck;       /* Claim: probes of every new state, and of states where nothing happens */
    Pool active;                    /* u8: of each probe */
    i32 bounds;                     /* program */
    u32 kinds;                      /* kinds of faults with a limit; 0: there is a label for each state, no more */
    u32 graph, given;               /* whether edges are kept; whether they were, and are given back */
    Pool alike, slices, numbers;    /* Alike; Slice; u32: atoms of instances, and ranks of values */
    Pool spots, where;              /* Spot; u32: by attribute and instances, the spot */
    Pool books;                     /* Pool: of each attribute its values (Value) */
    Pool names, named, named_slots; /* u8; Named; u32: of each Named its number plus one */
    u64 terms[KINDS + 1][MOST_ALIKE + 1], pairs[2 * KINDS];     /* hashes of kinds and cells, and of pairs of kinds */
    Missing missing;                /* what was asked for */
    /* what was found */
    Pool states;                    /* u64, W each */
    Pool table;                     /* u64: states (W is 1 and no number is asked for), or tag and number plus one */
    u64 slots, count;
    u32 keyed, brief;               /* whether what leads to a state that was met just now is only counted */
    Pool parents;                   /* u32: of each label the label before */
    Pool label_states, label_next, first_label, last_label;  /* u32 */
    Pool lefts;                     /* u64: of each label, 7 bits for each kind of fault */
    Pool begins;                    /* u64: of each label its first edge */
    Pool targets, edge_changes;     /* u32 */
    Pool cut_states, cut_changes;   /* u32: of each step out of the bounds, where it begins, and its change */
    Pool level_states, level_labels;/* u64: how many there were when each level was begun */
    u64 generated, edges, cut, searched, level_end, depth;
    u64 limit_states, limit_depth, limit_labels;
    /* where the search stands */
    u32 phase, at_label, at_step, then, found;
    Pool asked;                     /* Asked */
    Pool quiet;                     /* Claim: about steps that change nothing that these ask for; states decide them */
    Pool chained;                   /* Test: those that the caller told, and then chains of claims */
    u64 told, silenced;             /* how many of them the caller told; how many probes are silent */
    u64 chained_quiet, chained_silenced;    /* what the chains were made of */
    i32 states_chain, quiet_chain;
    Pool leaps, leap_of, leap_tables;   /* Leap; u32, of each test its leap plus one; i32, where it leads plus three */
    Pool clears, clear_of;          /* Clear; u32, of each Asked its first one */
    Pool clear_claims, clear_bits;  /* Claim; u64: of each Clear, a bit for all that it may see, where its claims say no */
    u32 cleared, clear_open;        /* how many Asked have them; whether their claims see no more than they did then */
    u64 claims_grown;               /* the label from which on no claim's tree has grown */
    Block own, *block;              /* where one thread gathers; the block whose steps are taken */
    /* several threads: blocks of a level, gathered ahead by whoever is free, and taken in their order */
    u32 helpers, ahead, at_work;    /* how many are wanted, whether this level's blocks are for them, and who runs */
    u64 least;                      /* labels of a level for which helpers are called */
    u64 base;                       /* the label where the first block begins */
    Block *ring;
    Shared *shared;
    struct Engine *view;            /* what helpers see of this; it changes while they wait */
    pthread_t threads[HELPERS];
    u64 (*recents)[RECENT];         /* of each thread */
    /* a survey of combinations of values */
    Pool cell_first, cell_states;   /* u32: of each combination, its first state, and how many */
    Pool cells, cell_masks;         /* u32, where each combination is; u64, W words */
    u64 cell_slots;
    Pool between;                   /* u32: steps between combinations: from, to, tag */
    /* what it asks for, or says */
    u32 what, part, class, test, probe, change, of;
    u64 label, number, marked;
    u64 words[W];
};

#define ATOM(e, n) (ITEMS((e)->atoms, Atom)[n])
#define STATE(e, n) (ITEMS((e)->states, u64) + (size_t)(n) * W)
