#include "cli/compare/spec.h"

#include <stdlib.h>
#include <string.h>

#include "cli/shared/cli.h"

static const char *const levels[] = {"base", "v3", "v4", NULL};
static const char *const dtypes[] = {"f32", "tf32", "bf16", "f16", NULL};

static bool is_one_of(const char *value, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(value, *names))
            return true;
    return false;
}

static bool take_text(char *out, size_t size, const char *value, const char *const *names)
{
    if (!*value || strlen(value) >= size || (names && !is_one_of(value, names)))
        return false;
    memcpy(out, value, strlen(value) + 1);
    return true;
}

static bool take_threads(const char *value, int64_t *out)
{
    enum { MOST = 1024 };
    char      *end;
    const long n = strtol(value, &end, 10);
    *out = n;
    return *value >= '0' && *value <= '9' && !*end && n >= 1 && n <= MOST;
}

/* "threads=1" */
static bool take_setting(const char *word, side_spec *out)
{
    if (!strncmp(word, "threads=", 8))
        return take_threads(word + 8, &out->threads);
    if (!strncmp(word, "level=", 6))
        return take_text(out->level, sizeof out->level, word + 6, levels);
    if (!strncmp(word, "dtype=", 6))
        return take_text(out->dtype, sizeof out->dtype, word + 6, dtypes);
    if (!strncmp(word, "library=", 8))
        return take_text(out->library, sizeof out->library, word + 8, NULL);
    return !strcmp(word, "eager"); /* steps run so */
}

bool spec_parse(const char *text, const char *option, side_spec *out)
{
    char words[sizeof out->library + 200], *rest = words;
    *out = (side_spec){.threads = 0};
    if (strlen(text) >= sizeof words) {
        complain("--%s is too long", option);
        return false;
    }
    memcpy(words, text, strlen(text) + 1);
    const char *device = strsep(&rest, ",");
    if (!take_text(out->device, sizeof out->device, device, NULL)) {
        complain("--%s %s names no device; cpu,threads=1 is an example", option, text);
        return false;
    }
    while (rest) {
        const char *word = strsep(&rest, ",");
        if (take_setting(word, out))
            continue;
        complain(
            "--%s: '%s' is not one of threads=N, level=base|v3|v4, dtype=f32|tf32|bf16|f16, eager and library=PATH",
            option, word);
        return false;
    }
    return true;
}
