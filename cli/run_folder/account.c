#include "cli/run_folder/account.h"

#include <stdlib.h>

#include "cli/shared/cli.h"
#include "cli/shared/json.h"
#include "cli/shared/json_file.h"

/* Recording takes 0.1 us for each allocation. On the CPU, where a step of few operations takes some microseconds, that
 * would be a fifth of it; from this work on it is about a hundredth. */
static bool records_memory(const haul_device *device, double step_flops)
{
    const double long_step = 3e7;
    return device != haul_cpu() || step_flops >= long_step;
}

haul_ledger *run_account_begin(haul_device *device, double step_flops)
{
    haul_scope  *scope = haul_scope_push();
    haul_ledger *ledger = haul_ledger_begin(.everywhere = true, .device_times = device != haul_cpu());
    ledger = ledger ? haul_keep(ledger) : NULL;
    if (!ledger || (records_memory(device, step_flops) && haul_memory_record(true))) {
        complain_error();
        run_account_end(ledger);
        ledger = NULL;
    }
    haul_scope_pop(scope);
    return ledger;
}

static cJSON *form_row(const haul_ledger_row *r)
{
    cJSON *row = cJSON_CreateObject();
    json_text(row, "from", haul_device_name(r->from));
    json_text(row, "to", haul_device_name(r->to));
    json_text(row, "operation", r->operation);
    json_text(row, "module", r->module);
    json_text(row, "label", r->label);
    json_text(row, "tensor", r->tensor);
    json_text(row, "conversion", r->conversion);
    json_number(row, "count", (double)r->count);
    json_number(row, "bytes", (double)r->bytes);
    json_number(row, "pinned_bytes", (double)r->pinned_bytes);
    json_number(row, "pageable_bytes", (double)r->pageable_bytes);
    json_number(row, "planned_bytes", (double)r->planned_bytes);
    json_number(row, "planned_ms", r->planned_ms);
    json_number(row, "wait_ms", r->wait_ms);
    json_number(row, "device_ms", r->device_ms);
    json_number(row, "overlap_ms", r->overlap_ms);
    return row;
}

/* All rows, for free; *count is -1 after a complaint. */
static haul_ledger_row *read_rows(haul_ledger *ledger, int *count)
{
    haul_ledger_row *rows = NULL;
    *count = haul_ledger_rows(ledger, NULL, 0);
    if (*count > 0 && !(rows = calloc((size_t)*count, sizeof *rows))) {
        complain("memory is exhausted");
        *count = -1;
    } else if (*count < 0 || haul_ledger_rows(ledger, rows, *count) < 0) {
        complain_error();
        *count = -1;
    }
    return rows;
}

static bool save_rows(haul_ledger *ledger, const haul_device *device, const char *path)
{
    int              count;
    haul_ledger_row *rows = read_rows(ledger, &count);
    cJSON           *object = count >= 0 ? cJSON_CreateObject() : NULL;
    int64_t          copies = 0, bytes = 0;
    for (int i = 0; i < count; i++) {
        copies += rows[i].count;
        bytes += rows[i].bytes;
    }
    if (object) {
        json_text(object, "device", haul_device_name(device));
        json_number(object, "copies", (double)copies);
        json_number(object, "bytes", (double)bytes);
        cJSON *list = json_array(object, "rows");
        for (int i = 0; i < count; i++)
            json_push(list, form_row(&rows[i]));
    }
    free(rows);
    return count >= 0 && json_save(path, object);
}

typedef int64_t snapshot_writer(const haul_device *device, char *out, size_t size);

static int64_t write_failure(const haul_device *device, char *out, size_t size)
{
    (void)device;
    return haul_memory_report_snapshot_json(out, size);
}

/* The text of a snapshot, for free; NULL after a complaint. */
static char *snapshot_text(snapshot_writer *write, const haul_device *device)
{
    for (int64_t size = 1 << 16;;) {
        char   *text = malloc((size_t)size);
        int64_t length = text ? write(device, text, (size_t)size) : -1;

        if (length >= 0 && length < size)
            return text;
        free(text);
        if (!text)
            complain("memory is exhausted");
        else if (length < 0)
            complain_error();
        if (!text || length < 0)
            return NULL;
        size = length + 4096; /* blocks may be added meanwhile */
    }
}

/* The same as an object. */
static cJSON *snapshot_object(snapshot_writer *write, const haul_device *device)
{
    char  *text = snapshot_text(write, device);
    cJSON *object = text ? cJSON_Parse(text) : NULL;
    if (text && !object)
        complain("memory is exhausted");
    free(text);
    return object;
}

/* If the thread's error is that memory ran out while it was recorded: the memory that the device held then, and the
 * request. NULL if it is not, or after a complaint. */
static cJSON *find_failure(void)
{
    haul_memory_report report;
    char               text[4096];
    if (haul_error_status() != HAUL_OUT_OF_MEMORY || haul_memory_report_get(&report) ||
        haul_memory_report_snapshot_json(NULL, 0) < 0)
        return NULL;
    cJSON *object = snapshot_object(write_failure, NULL);
    if (object && haul_memory_report_json(&report, text, sizeof text) < (int64_t)sizeof text)
        cJSON_AddItemToObject(object, "report", cJSON_Parse(text));
    return object;
}

/* `failure` may be NULL. */
static bool save_memory(const haul_device *device, cJSON *failure, const char *path)
{
    cJSON *object = snapshot_object(haul_memory_snapshot_json, device);
    if (object && failure && !cJSON_AddItemReferenceToObject(object, "at_failure", failure)) {
        cJSON_Delete(object);
        return !complain("memory is exhausted");
    }
    return object && json_save(path, object);
}

void run_account_end(haul_ledger *ledger)
{
    if (!ledger)
        return;
    haul_memory_record(false);
    haul_ledger_end(ledger);
    haul_release(ledger);
}

bool run_account_save(haul_ledger *ledger, haul_device *device, const run_folder *run)
{
    if (!ledger)
        return true;
    cJSON *failure = find_failure();
    /* The times of commands that are still running. After a failure of the device there may be none. */
    haul_device_sync(device);
    haul_error_clear();
    haul_ledger_end(ledger);
    bool saved = save_rows(ledger, device, run->ledger) && save_memory(device, failure, run->memory);
    cJSON_Delete(failure);
    run_account_end(ledger);
    return saved;
}
