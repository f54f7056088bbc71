/* All devices of the process: the list of backends, and the spellings of names.
 *
 * Backends are asked for their devices, and devices are opened, when they are first named; the results stay for the
 * life of the process. An unknown name gives an invalid device that carries the reason. Invalid devices are kept by
 * name; after too many of them the rest share one, so asking in a loop costs no memory. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/fork.h"
#include "base/text/ascii.h"
#include "base/text/list.h"
#include "base/text/plain.h"
#include "device/device.h"
#include "device/forked.h"
#include "kernels/kernels.h"

/* Autocast has bits for this many backends. */
enum { MAX_BACKENDS = 12, MAX_INVALID = 64 };

/* The backends of this build, and those from haul__backend_add. */
static const haul__backend *backends[MAX_BACKENDS] = {
#define X(name) &haul__backend_##name,
#include "backends/backends.def"
#undef X
};

enum {
    BUILT_IN = 0
#define X(name) +1
#include "backends/backends.def"
#undef X
};

static int backend_count = BUILT_IN;

static struct {
    pthread_mutex_t lock;
    atomic_bool     counted[MAX_BACKENDS];
    int             counts[MAX_BACKENDS];
    char            why[MAX_BACKENDS][256];
    haul_device    *devices[HAUL__MAX_DEVICES]; /* by slot; some may have failed to open */
    atomic_int      device_count;
    haul_device    *invalid[MAX_INVALID];
    atomic_int      invalid_count;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Atomic(haul_device *) the_cpu;

static haul_device no_room = {.mark = HAUL__DEVICE_MARK,
                              .name = "invalid",
                              .why = "no such device (nor any of the many other names that were tried)",
                              .why_status = HAUL_DEVICE};
static haul_device no_memory = {.mark = HAUL__DEVICE_MARK,
                                .name = "invalid",
                                .why = "host memory is exhausted: the device could not be opened",
                                .why_status = HAUL_OUT_OF_MEMORY};

int haul__backend_count(void)
{
    return backend_count;
}

haul_status haul__backend_add(const haul__backend *backend)
{
    pthread_mutex_lock(&registry.lock);
    bool fine = backend->size == sizeof *backend && backend_count < MAX_BACKENDS;
    if (fine)
        backends[backend_count++] = backend;
    pthread_mutex_unlock(&registry.lock);
    return fine ? HAUL_OK
                : haul__fail(HAUL_INVALID_ARGUMENT, "haul__backend_add", backend->name,
                             "a backend of %zu bytes is expected, and there is room for %d", sizeof *backend,
                             (int)MAX_BACKENDS);
}

const char *haul__backend_name(int slot)
{
    return backends[slot]->name;
}

/* ---- forks ---- */

/* True if enumerating its devices starts a driver. */
static bool has_driver(const haul__backend *backend)
{
    return !backend->host_memory && !backend->no_data;
}

static void give_up(haul_device *device, const haul__backend *backend)
{
    device->backend = backend;
    device->valid = false;
    device->why_status = HAUL_STATE;
    haul__device_forked_why(device->name, device->why, sizeof device->why);
    atomic_store(&device->lost, 2);
}

/* Devices of drivers that the parent started cannot be used. A thread that is gone may have held a lock: what these
 * guard is whole at each moment, because one store publishes it: of a count, after the entry. */
static void after_fork_in_child(void)
{
    static haul__backend forked[MAX_BACKENDS];
    registry.lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < registry.device_count; i++)
        pthread_mutex_init(&registry.devices[i]->kernels_lock, NULL);
    for (int b = 0; b < backend_count; b++) {
        const haul__backend *before = backends[b];
        if (!registry.counted[b] || registry.counts[b] == 0 || !has_driver(before) || before == &forked[b])
            continue;
        haul__backend_forked(before, &forked[b]);
        backends[b] = &forked[b];
        for (int i = 0; i < registry.device_count; i++)
            if (registry.devices[i]->backend == before)
                give_up(registry.devices[i], &forked[b]);
    }
}

HAUL__AT_FORK(HAUL__FORK_DEVICES, .in_child = after_fork_in_child);

/* ---- opening; the registry is locked ---- */

static int count_of(int b)
{
    HAUL__ASSERT(0 <= b && b < backend_count);
    if (!registry.counted[b]) {
        haul__fork_watch(); /* without memory for it, children are not protected */
        registry.counts[b] = backends[b]->count(registry.why[b], sizeof registry.why[b]);
        HAUL__ASSERT(registry.counts[b] >= 0);
        atomic_store_explicit(&registry.counted[b], true, memory_order_release);
    }
    return registry.counts[b];
}

static void name_of(int b, int index, char *out, size_t size)
{
    if (backends[b]->only_one)
        snprintf(out, size, "%s", backends[b]->name);
    else if (backends[b]->names)
        snprintf(out, size, "%s:%s", backends[b]->name, backends[b]->names[index]);
    else
        snprintf(out, size, "%s:%d", backends[b]->name, index);
}

/* A device that is not open yet; NULL if memory is exhausted. */
static haul_device *device_new(int b, int index)
{
    haul_device *device = haul__calloc(1, sizeof *device);
    if (!device)
        return NULL;
    device->mark = HAUL__DEVICE_MARK;
    device->backend = backends[b];
    device->index = index;
    device->backend_slot = b;
    name_of(b, index, device->name, sizeof device->name);
    device->properties.name = device->name;
    device->properties.backend = backends[b]->name;
    device->properties.model = device->model;
    device->properties.driver = device->driver;
    device->properties.libraries = device->libraries;
    device->properties.bus = "";
    HAUL__ASSERT(*device->name && index >= 0); /* the name that finds it again */
    device->kernels = haul__calloc(haul__kernel_slots(), sizeof *device->kernels);
    device->foreseen = haul__calloc(haul__kernel_slots(), sizeof *device->foreseen);
    if (!device->kernels || !device->foreseen) {
        haul__free(device->kernels);
        haul__free(device->foreseen);
        haul__free(device);
        return NULL;
    }
    HAUL__ASSERT(!device->valid && !device->compute); /* until it is opened, and started */
    pthread_mutex_init(&device->kernels_lock, NULL);
    return device;
}

static void device_free(haul_device *device)
{
    pthread_mutex_destroy(&device->kernels_lock);
    haul__free(device->kernels);
    haul__free(device->foreseen);
    haul__free(device);
}

/* The last error's text without the name of its operation. */
static const char *bare_message(void)
{
    const char *message = haul_error_message(), *operation = haul_error_operation();
    size_t      size = strlen(operation);
    if (size > 0 && strncmp(message, operation, size) == 0 && strncmp(message + size, ": ", 2) == 0)
        return message + size + 2;
    return message;
}

static void not_usable(haul_device *device, haul_status status)
{
    HAUL__ASSERT(status != HAUL_OK && *haul_error_message()); /* the reason is the last error */
    device->valid = false;
    device->why_status = status;
    snprintf(device->why, sizeof device->why, "device \"%s\" cannot be used: %.380s", device->name, bare_message());
}

/* Device `index` of backend b, which has that many, with its properties. It is kept whether it is usable or not, unless
 * memory was exhausted. */
static haul_device *open_device(int b, int index)
{
    for (int i = 0; i < registry.device_count; i++)
        if (registry.devices[i]->backend == backends[b] && registry.devices[i]->index == index)
            return registry.devices[i];
    HAUL__ASSERT(!registry.counted[b] || index < registry.counts[b] || backends[b]->names);
    if (registry.device_count == HAUL__MAX_DEVICES)
        return &no_room;

    haul__error_record before;
    haul__error_save(&before);
    haul_device *device = device_new(b, index);
    if (device) {
        haul_status status = backends[b]->open(device, index);
        if (status == HAUL_OUT_OF_MEMORY) { /* the next attempt may succeed */
            device_free(device);
            haul__error_restore(&before);
            return &no_memory;
        }
        device->valid = true;
        if (status)
            not_usable(device, status);
        HAUL__ASSERT(registry.device_count < HAUL__MAX_DEVICES && device->mark == HAUL__DEVICE_MARK);
        device->slot = registry.device_count;
        registry.devices[device->slot] = device;
        atomic_store_explicit(&registry.device_count, device->slot + 1, memory_order_release);
    }
    haul__error_restore(&before);
    return device ? device : &no_memory;
}

/* Makes a described device ready for use; users never receive one that is not. If this fails, the device is unusable
 * from then on, unless memory was exhausted. */
static haul_device *start_device(haul_device *device)
{
    haul__error_record before;
    if (!device->valid || device->compute)
        return device;
    haul__error_save(&before);
    HAUL__ASSERT(registry.devices[device->slot] == device);
    haul_status status = device->backend->start ? device->backend->start(device) : HAUL_OK;
    if (!status)
        status = haul__streams_open(device);
    if (status && status != HAUL_OUT_OF_MEMORY)
        not_usable(device, status);
    haul__error_restore(&before);
    HAUL__ASSERT(status || device->compute->device == device);
    return status == HAUL_OUT_OF_MEMORY ? &no_memory : device;
}

/* ---- invalid devices; the registry is locked ---- */

HAUL_PRINTF(2, 3)
static haul_device *invalid(const char *name, const char *format, ...)
{
    char    key[sizeof no_room.name];
    va_list arguments;
    snprintf(key, sizeof key, "%s", name);
    for (int i = 0; i < registry.invalid_count; i++)
        if (strcmp(registry.invalid[i]->name, key) == 0)
            return registry.invalid[i];
    if (registry.invalid_count == MAX_INVALID)
        return &no_room;
    haul_device *device = haul__calloc(1, sizeof *device);
    if (!device)
        return &no_memory;
    device->mark = HAUL__DEVICE_MARK;
    memcpy(device->name, key, sizeof key);
    device->why_status = HAUL_DEVICE;
    va_start(arguments, format);
    haul__vsnprintf(device->why, sizeof device->why, format, arguments);
    va_end(arguments);
    HAUL__ASSERT(!device->valid && !device->backend);
    registry.invalid[registry.invalid_count] = device;
    atomic_store_explicit(&registry.invalid_count, registry.invalid_count + 1, memory_order_release);
    return device;
}

/* "cpu, opencl:0, opencl:1": the devices that can compute. */
static const char *existing(char *out, size_t size)
{
    char name[sizeof no_room.name];
    out[0] = '\0';
    for (int b = 0; b < backend_count; b++) {
        for (int i = 0; !backends[b]->no_data && i < count_of(b); i++) {
            name_of(b, i, name, sizeof name);
            haul__list_add(out, size, "%s", name);
        }
    }
    return out;
}

/* ---- names ---- */

/* The parts of a name: a word in lower case and a number, -1 if there is none. */
typedef struct spelling {
    char word[24];
    int  index;
} spelling;

/* TensorFlow prefixes the machine: "/job:localhost/replica:0/task:0/device:GPU:0". Only this machine is accepted. */
static const char *skip_prefix(const char *name)
{
    static const char *const parts[] = {"/job:localhost", "/replica:0", "/task:0"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        size_t size = strlen(parts[i]);
        if (haul__same_letters(name, parts[i], size) && name[size] == '/')
            name += size;
    }
    if (*name == '/')
        name++;
    if (haul__same_letters(name, "device:", 7))
        name += 7;
    return name;
}

static bool parse(const char *name, spelling *out)
{
    size_t      size = 0;
    const char *p = skip_prefix(name);
    for (; haul__is_letter(*p) || haul__is_digit(*p) || *p == '_'; p++) {
        if (size + 1 >= sizeof out->word)
            return false;
        out->word[size++] = haul__lower(*p);
    }
    out->word[size] = '\0';
    out->index = -1;
    HAUL__ASSERT(size < sizeof out->word);
    if (*p == ':') {
        out->index = 0;
        const char *digits = ++p;
        for (; haul__is_digit(*p) && out->index < 100000; p++)
            out->index = 10 * out->index + (*p - '0');
        if (p == digits)
            return false;
    }
    return size > 0 && *p == '\0';
}

/* True if a is the better GPU. One with its own memory wins, then more compute units, then more memory. */
static bool better_gpu(const haul_device_properties *a, const haul_device_properties *b)
{
    if (a->shares_host_memory != b->shares_host_memory)
        return b->shares_host_memory;
    if (a->compute_units != b->compute_units)
        return a->compute_units > b->compute_units;
    return a->memory_bytes > b->memory_bytes;
}

/* The GPUs, best first; equals in the order of the registry. */
static int find_gpus(haul_device *out[HAUL__MAX_DEVICES])
{
    int found = 0;
    for (int b = 0; b < backend_count; b++) {
        for (int i = 0; has_driver(backends[b]) && i < count_of(b); i++) {
            haul_device *device = open_device(b, i);
            int          at = found;
            if (!device->valid || device->properties.kind != HAUL_KIND_GPU || found == HAUL__MAX_DEVICES)
                continue;
            HAUL__ASSERT(device->backend == backends[b] && device->index == i);
            for (; at > 0 && better_gpu(&device->properties, &out[at - 1]->properties); at--)
                out[at] = out[at - 1];
            out[at] = device;
            found++;
        }
    }
    return found;
}

static haul_device *resolve_gpu(const char *name, const spelling *s, bool else_cpu)
{
    char         names[160];
    haul_device *gpus[HAUL__MAX_DEVICES];
    int          index = s->index < 0 ? 0 : s->index, count = find_gpus(gpus), found = 0;
    for (int i = 0; i < count; i++) {
        haul_device *device = start_device(gpus[i]);
        if (device->valid && found++ == index)
            return device;
    }
    if (else_cpu)
        return open_device(0, 0);
    HAUL__ASSERT(found <= count && found <= index); /* else the search had returned one */
    if (found == 0)
        return invalid(name,
                       "no device \"%.40s\": no GPU was found; available: %s (\"auto\" uses a GPU when it finds one)",
                       name, existing(names, sizeof names));
    return invalid(name, "no device \"%.40s\": there are %d GPUs, counted from 0; available: %s", name, found,
                   existing(names, sizeof names));
}

static haul_device *resolve_backend(const char *name, const spelling *s, int b)
{
    char names[128];
    int  index = s->index < 0 ? 0 : s->index, count = count_of(b);
    if (index < count)
        return open_device(b, index);
    existing(names, sizeof names);
    if (count == 0)
        return invalid(name, "no device \"%.40s\": %.230s; available: %s", name, registry.why[b], names);
    HAUL__ASSERT(!backends[b]->only_one || count == 1);
    if (backends[b]->only_one)
        return invalid(name, "no device \"%.40s\": there is one %s, called \"%s\"; available: %s", name,
                       backends[b]->name, backends[b]->name, names);
    return invalid(name, "no device \"%.40s\": %s has %d device%s, counted from 0; available: %s", name,
                   backends[b]->name, count, count == 1 ? "" : "s", names);
}

/* True if the word begins with "gpu" or the name of a backend. */
static bool is_kind(const char *word, size_t letters)
{
    if (letters == 3 && strncmp(word, "gpu", letters) == 0)
        return true;
    for (int b = 0; b < backend_count; b++)
        if (strlen(backends[b]->name) == letters && strncmp(word, backends[b]->name, letters) == 0)
            return true;
    return false;
}

/* "h200, h200:1": the devices of a backend that has names. A number 0 is left out. */
static const char *list_names(const char *const *names, char *out, size_t size)
{
    for (out[0] = '\0'; *names; names++) {
        const size_t length = strlen(*names), cut = length > 2 && strcmp(*names + length - 2, ":0") == 0 ? 2 : 0;
        haul__list_add(out, size, "%.*s", (int)(length - cut), *names);
    }
    return out;
}

/* True if `given` is this name, or the same without a number 0 at its end. */
static bool is_name(const char *given, const char *name)
{
    const size_t length = strlen(given), all = strlen(name);
    return all < 64 && haul__same_letters(given, name, length) &&
           (length == all || (length + 2 == all && strcmp(name + length, ":0") == 0));
}

/* A device that is opened by its name: NULL if the text is not that of a backend which has names. */
static haul_device *resolve_named(const char *name)
{
    char        names[160];
    const char *text = skip_prefix(name);
    for (int b = 0; b < backend_count; b++) {
        const size_t length = strlen(backends[b]->name);
        if (!backends[b]->names || !haul__same_letters(text, backends[b]->name, length) || text[length] != ':')
            continue;
        for (int i = 0; backends[b]->names[i]; i++)
            if (is_name(text + length + 1, backends[b]->names[i]))
                return open_device(b, i);
        return invalid(name, "no device \"%.40s\": behind \"%s:\" one of these is expected: %s", name,
                       backends[b]->name, list_names(backends[b]->names, names, sizeof names));
    }
    return NULL;
}

static haul_device *resolve(const char *name)
{
    char     names[128];
    spelling s;
    if (!name)
        return invalid("(NULL)", "haul_device_get was called with the name NULL; names are like \"cpu\", \"opencl:0\", "
                                 "\"auto\"");
    haul_device *named = resolve_named(name);
    if (named)
        return named;
    if (!parse(name, &s))
        return invalid(
            name, "\"%.40s\" is no name of a device; names are like \"cpu\", \"opencl:0\", \"gpu\", \"auto\"", name);
    if (strcmp(s.word, "gpu") == 0)
        return resolve_gpu(name, &s, false);
    if (strcmp(s.word, "auto") == 0 && s.index < 0)
        return resolve_gpu(name, &s, true);
    for (int b = 0; b < backend_count; b++)
        if (strcmp(s.word, backends[b]->name) == 0)
            return resolve_backend(name, &s, b);
    existing(names, sizeof names);
    size_t letters = strcspn(s.word, "0123456789");
    if (s.index < 0 && s.word[letters] && is_kind(s.word, letters)) /* gpu0 */
        return invalid(name, "no device \"%.40s\"; did you mean \"%.*s:%s\"? Available: %s", name, (int)letters, s.word,
                       s.word + letters, names);
    return invalid(name,
                   "no device \"%.40s\": this build has no %s backend; available: %s, and gpu and auto choose one",
                   name, s.word, names);
}

haul_device *haul_device_get(const char *name)
{
    if (name && strcmp(name, "cpu") == 0)
        return haul_cpu();
    pthread_mutex_lock(&registry.lock);
    haul_device *device = start_device(resolve(name));
    HAUL__ASSERT(!device->valid || device->compute); /* users receive no device that was not started */
    pthread_mutex_unlock(&registry.lock);
    return device;
}

haul_device *haul_cpu(void)
{
    haul_device *device = atomic_load_explicit(&the_cpu, memory_order_acquire);
    if (device)
        return device;
    pthread_mutex_lock(&registry.lock);
    device = start_device(open_device(0, 0));
    HAUL__ASSERT(!device->valid || device->backend->host_memory); /* the CPU is the first backend */
    pthread_mutex_unlock(&registry.lock);
    if (device->valid)
        atomic_store_explicit(&the_cpu, device, memory_order_release);
    return device;
}

haul_device *haul__device_by_dlpack(int kind, int number)
{
    char name[sizeof no_room.name];
    for (int b = 0; b < backend_count; b++)
        if (backends[b]->dlpack == kind && kind > 0) {
            name_of(b, number, name, sizeof name);
            return haul_device_get(name);
        }
    return NULL;
}

haul_device *haul__device_in_use(int slot)
{
    pthread_mutex_lock(&registry.lock);
    haul_device *device = slot < registry.device_count ? registry.devices[slot] : NULL;
    HAUL__ASSERT(slot >= 0 && (!device || device->slot == slot));
    if (device && (!device->valid || !device->compute))
        device = NULL;
    pthread_mutex_unlock(&registry.lock);
    return device;
}

int haul_device_list(haul_device_report *out, int capacity)
{
    int found = 0;
    pthread_mutex_lock(&registry.lock);
    for (int b = 0; b < backend_count; b++) {
        int count = count_of(b);
        for (int i = 0; i < (count > 0 ? count : 1); i++, found++) {
            if (!out || found >= capacity)
                continue;
            haul_device_report *report = &out[found];
            const haul_device  *device = count > 0 ? open_device(b, i) : NULL;
            memset(report, 0, sizeof *report);
            if (device)
                name_of(b, i, report->name, sizeof report->name);
            else
                snprintf(report->name, sizeof report->name, "%s", backends[b]->name);
            report->usable = device && device->valid;
            if (!report->usable)
                snprintf(report->reason, sizeof report->reason, "%s", device ? device->why : registry.why[b]);
        }
    }
    pthread_mutex_unlock(&registry.lock);
    return found;
}
