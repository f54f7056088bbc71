/* What many kernels do, after the mathematics (functions.h). */
/* kernel functions: a unit has those that it uses */
// clang-format off
FUNC ACC SUM_OF(ACC a, ACC b) { return a + b; }

FUNC I64 least(I64 a, I64 b) { return a < b ? a : b; }

/* How many items a loop takes side by side: those that are `left` for it, of `room` that are neighbours, at most `most`;
 * one where work is not CHUNKED. */
FUNC int NEIGHBOURS(I64 room, I64 left, int most)
{
    const I64 n = least(room, left);
    return CHUNKED ? (int)least(n, most) : 1;
}

FUNC void PUT_I64(GLOBAL U32 *words, I64 value)
{
    words[0] = (U32)value;
    words[1] = (U32)((U64)value >> 32);
}

/* The index `value`, which stands at `position`, or -1 if it is not in [0, bound). Then the first thread notes it in the
 * record `fault`, from which the host makes an error of `check` (device/index_fault.h). */
FUNC I64 CHECKED_INDEX(GLOBAL U32 *fault, U32 check, I64 position, I64 value, I64 bound)
{
    if ((U64)value < (U64)bound) return value;
    if (TAKE_WORD(fault + FAULT_CHECK, check)) {
        PUT_I64(fault + FAULT_POSITION, position);
        PUT_I64(fault + FAULT_VALUE, value);
        PUT_I64(fault + FAULT_BOUND, bound);
    }
    return -1;
}
