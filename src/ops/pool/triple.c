/* Options that are triples. */
#include "ops/pool/triple.h"

#include "base/text/plain.h"
#include "core/error.h"

enum { TEXT = 96 };

/* As the user would write them. */
static const char *text_of(const int64_t triple[3], char text[TEXT])
{
    size_t at = 0;
    for (int i = 0; i < 3 && at < TEXT; i++) {
        const char *before = i ? ", " : "";
        int         n = triple[i] == HAUL_ZERO ? haul__snprintf(text + at, TEXT - at, "%sHAUL_ZERO", before)
                                               : haul__snprintf(text + at, TEXT - at, "%s%lld", before, (long long)triple[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return text;
}

haul_status haul__option_triple(const char *operation, const char *name, const int64_t given[3],
                                const int64_t otherwise[3], int64_t least, int64_t out[3])
{
    char text[TEXT];
    int  zeros = (given[0] == 0) + (given[1] == 0) + (given[2] == 0);
    if (zeros == 1 || zeros == 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, name,
                          "%s is {%s}, but all three values must be given, of depth, rows and columns%s", name,
                          text_of(given, text), least ? "" : "; write HAUL_ZERO where 0 is meant");
    for (int i = 0; i < 3; i++) {
        out[i] = zeros ? otherwise[i] : given[i] == HAUL_ZERO ? 0 : given[i];
        if (out[i] < least || out[i] > INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, operation, name, "%s is {%s}; each must be from %lld to 2^31 - 1",
                              name, text_of(given, text), (long long)least);
    }
    return HAUL_OK;
}
