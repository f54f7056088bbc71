/* The loops of ycc.c for one width of vectors, included for each level. It defines, for the level: LANES, the
 * type NAME(words) of as many numbers of 16 bits, and the functions NAME(load) and NAME(store) of vectors,
 * NAME(stream), which stores an aligned one past the caches, NAME(widen) of as many bytes, NAME(scaled) for products
 * with a factor of 16 bits after the point, NAME(green) for a sum of two of them, NAME(bytes), which clamps the numbers
 * of even and of odd pixels to bytes and brings them into order, and NAME(put_pixels). */

/* R = Y + 1.402 Cr, G = Y - 0.344136 Cb - 0.714136 Cr, B = Y + 1.772 Cb, with factors of 16 bits after the point
 * (ITU-T T.871, 7). The integer parts of factors are added separately, so that the rest fits into 16 bits. */
TARGET INLINE void NAME(colours)(NAME(words) y, NAME(words) cb, NAME(words) cr, NAME(words) * out)
{
    out[0] = y + cr + NAME(scaled)(cr, RED);
    out[1] = y - cr + NAME(green)(cb, cr);
    out[2] = y + cb + cb + NAME(scaled)(cb, BLUE);
}

/* Cb or Cr of the even and of the odd pixels from x on, less 128. The nearer sum counts three times. The library adds 1
 * and 2 fourths, or 8 and 7 sixteenths, before it rounds down, so that errors do not add up. */
TARGET INLINE void NAME(differences)(haul__ycc_kind kind, const haul__ycc *row, int i, int64_t x, NAME(words) * even,
                                     NAME(words) * odd)
{
    if (kind == HAUL__YCC_FULL) {
        const NAME(words) both = NAME(load)(row->stored[i] + x);
        *even = (both & 255) - 128;
        *odd = (NAME(words))((NAME(unsigned_words))both >> 8) - 128;
        return;
    }
    const int16_t *at = row->sums[i] + x / 2;
    const NAME(words) sum = NAME(load)(at), thrice = sum + sum + sum;
    const NAME(words) before = NAME(load)(at - 1), after = NAME(load)(at + 1);
    *even = kind == HAUL__YCC_HALF ? (thrice + before + 1) >> 2 : (thrice + before) >> 4;
    *odd = kind == HAUL__YCC_HALF ? (thrice + after + 2) >> 2 : (thrice + after - 1) >> 4;
}

TARGET INLINE void NAME(block)(haul__ycc_kind kind, const haul__ycc *row, int64_t x, int64_t at,
                               const haul__ycc_target *to)
{
    const NAME(words) y = NAME(load)(row->y + x);
    NAME(words) cb[2], cr[2], even[3], odd[3], bytes[3];
    NAME(differences)(kind, row, 0, x, &cb[0], &cb[1]);
    NAME(differences)(kind, row, 1, x, &cr[0], &cr[1]);
    NAME(colours)(y & 255, cb[0], cr[0], even);
    NAME(colours)((NAME(words))((NAME(unsigned_words))y >> 8), cb[1], cr[1], odd);
#pragma GCC unroll 3
    for (int c = 0; c < 3; c++)
        bytes[c] = NAME(bytes)(even[c], odd[c]);
    if (!to->planes[0])
        NAME(put_pixels)(bytes, to->pixels + 4 * at);
    for (int c = 0; c < 3 && to->planes[0]; c++)
        if (to->uncached)
            NAME(stream)(bytes[c], to->planes[c] + at);
        else
            NAME(store)(bytes[c], to->planes[c] + at);
}

/* The pixels that fill no vector go to other memory first. */
TARGET INLINE void NAME(last_block)(haul__ycc_kind kind, const haul__ycc *row, int64_t x, int64_t last,
                                    const haul__ycc_target *to)
{
    uint8_t                pixels[4 * 2 * LANES];
    const haul__ycc_target own = {
        {to->planes[0] ? pixels : NULL, pixels + 2 * LANES, pixels + 4 * LANES}, pixels, false};
    const size_t left = (size_t)(last - x);
    NAME(block)(kind, row, x, 0, &own);
    if (!to->planes[0])
        memcpy(to->pixels + 4 * x, pixels, 4 * left);
    else
        for (int c = 0; c < 3; c++)
            memcpy(to->planes[c] + x, own.planes[c], left);
}

TARGET INLINE bool NAME(are_aligned)(const haul__ycc_target *to, int64_t first)
{
    uintptr_t all = 0;
    for (int c = 0; c < 3; c++)
        all |= (uintptr_t)(to->planes[c] + first);
    return all % sizeof(NAME(words)) == 0;
}

/* Inlined for kinds that are constants. */
TARGET INLINE void NAME(convert_by)(haul__ycc_kind kind, const haul__ycc *row, int64_t first, int64_t last,
                                    const haul__ycc_target *to)
{
    const haul__ycc_target planes = {{to->planes[0], to->planes[1], to->planes[2]}, NULL, false};
    const haul__ycc_target past = {{to->planes[0], to->planes[1], to->planes[2]}, NULL, true};
    const haul__ycc_target pixels = {.pixels = to->pixels};
    int64_t                x = first;
    if (to->planes[0] && to->uncached && NAME(are_aligned)(to, first))
        for (; x + 2 * LANES <= last; x += 2 * LANES)
            NAME(block)(kind, row, x, x, &past);
    else if (to->planes[0])
        for (; x + 2 * LANES <= last; x += 2 * LANES)
            NAME(block)(kind, row, x, x, &planes);
    else
        for (; x + 2 * LANES <= last; x += 2 * LANES)
            NAME(block)(kind, row, x, x, &pixels);
    if (x < last)
        NAME(last_block)(kind, row, x, last, to);
}

TARGET static void NAME(convert)(haul__ycc_kind kind, const haul__ycc *row, int64_t first, int64_t last,
                                 const haul__ycc_target *to)
{
    switch (kind) {
    case HAUL__YCC_FULL: NAME(convert_by)(HAUL__YCC_FULL, row, first, last, to); break;
    case HAUL__YCC_HALF: NAME(convert_by)(HAUL__YCC_HALF, row, first, last, to); break;
    default: NAME(convert_by)(HAUL__YCC_QUARTER, row, first, last, to);
    }
}

TARGET static void NAME(sums)(const uint8_t *near, const uint8_t *far, int64_t count, int16_t *out)
{
    for (int64_t x = 0; x < count; x += LANES) {
        const NAME(words) a = NAME(widen)(near + x);
        NAME(store)(far ? a + a + a + NAME(widen)(far + x) - 510 : a - 128, out + x);
    }
    out[-1] = out[0];
    out[count] = out[count - 1];
}

static const haul__ycc_loops NAME(loops) = {.sums = NAME(sums), .convert = NAME(convert)};

#undef NAME
#undef TARGET
#undef LANES
