/* Bits of states that lie side by side. */

#if PEXT
/* The bits of a state that lie under masks, side by side. */
static inline u64 seen(const u64 *s, const u64 *masks)
{
    u64 found = EXTRACT(s[0], masks[0]);
#if W > 1
    for (int w = 1; w < W; w++) found = found << BITS(masks[w]) | EXTRACT(s[w], masks[w]);
#endif
    return found;
}

/* A state that has these bits under masks. */
static void state_with(u64 bits, const u64 *masks, u64 *s)
{
    for (int w = W - 1; w >= 0; w--) {
        s[w] = DEPOSIT(bits, masks[w]);
        bits >>= BITS(masks[w]);
    }
}
#endif
