#include "calls.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FAULTS = 16 };

typedef struct fault {
    enum standin_function function;
    long                  n, seen;
    int                   code;
} fault;

typedef struct entry {
    const char *name;
    void (*function)(void); /* here so that a missing one does not link */
} entry;

static const entry entries[CALLS] = {
#define X(name, symbol, arguments) {#symbol, (void (*)(void))symbol},
#include STANDIN_LIST
#undef X
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long            counts[CALLS];
static fault           faults[MAX_FAULTS];
static int             fault_count;

static int find(const char *name, size_t length)
{
    for (int i = 0; i < CALLS; i++)
        if (strncmp(entries[i].name, name, length) == 0 && entries[i].name[length] == '\0')
            return i;
    return -1;
}

/* The error a caller is most likely to meet there. */
static int usual_code(const char *name)
{
#ifdef STANDIN_USUAL_CODE
    (void)name;
    return STANDIN_USUAL_CODE;
#else
    if (strncmp(name, "nvrtcCompile", 12) == 0)
        return NVRTC_ERROR_COMPILATION;
    if (strncmp(name, "nvrtc", 5) == 0)
        return NVRTC_ERROR_OUT_OF_MEMORY;
    return strstr(name, "Alloc") ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
#endif
}

/* One "function:n[:code]"; functions of other libraries' lists are theirs to look after. */
static bool parse(const char *text, size_t length, fault *out)
{
    const char *colon = memchr(text, ':', length);
    char       *end;
    int         function;
    if (!colon || colon == text)
        return false;
    function = find(text, (size_t)(colon - text));
    out->n = strtol(colon + 1, &end, 10);
    if (end == colon + 1 || out->n < 0)
        return false;
    out->code = function < 0 ? 0 : usual_code(entries[function].name);
    if (*end == ':') {
        const char *code = end + 1;
        out->code = (int)strtol(code, &end, 10);
        if (end == code)
            return false;
    }
    if (end != text + length)
        return false;
    out->function = function < 0 ? CALLS : (enum standin_function)function;
    out->seen = 0;
    return true;
}

int standin_fail(const char *plan)
{
    bool valid = true;
    pthread_mutex_lock(&lock);
    fault_count = 0;
    while (plan && *plan && valid) {
        size_t length = strcspn(plan, ",");
        fault  one;
        valid = fault_count < MAX_FAULTS && parse(plan, length, &one);
        if (valid && one.function != CALLS)
            faults[fault_count++] = one;
        plan += length + (plan[length] == ',');
    }
    pthread_mutex_unlock(&lock);
    return valid;
}

static __attribute__((constructor)) void read_environment(void)
{
    standin_fail(getenv("STANDIN_FAIL"));
}

int standin_call(enum standin_function function)
{
    int code = 0;
    pthread_mutex_lock(&lock);
    counts[function]++;
    for (int i = 0; i < fault_count; i++) {
        fault *f = &faults[i];
        if (f->function == function && (f->n == 0 || f->n == ++f->seen))
            code = f->code;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

long standin_count(const char *function)
{
    int  i = find(function, strlen(function));
    long count = -1;
    pthread_mutex_lock(&lock);
    if (i >= 0)
        count = counts[i];
    pthread_mutex_unlock(&lock);
    return count;
}

void standin_reset_counts(void)
{
    pthread_mutex_lock(&lock);
    memset(counts, 0, sizeof counts);
    pthread_mutex_unlock(&lock);
}
