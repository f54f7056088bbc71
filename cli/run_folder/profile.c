#include "cli/run_folder/profile.h"

#include "base/numbers.h"
#include "cli/shared/cli.h"
#include "plan/calibrate.h"

enum { WARM_UP = 10, MOST_FINDINGS = 64 };

static int64_t not_negative(int64_t n)
{
    return n > 0 ? n : 0;
}

void run_profile_plan(run_profile *r, int64_t wanted, int64_t first, int64_t later, int64_t epochs)
{
    *r = (run_profile){.wanted = wanted};
    if (!wanted)
        return;
    if (first >= wanted + WARM_UP || epochs == 0 || first > later) {
        r->wanted = smaller(wanted, first);
        r->skipped = smaller(WARM_UP, not_negative(first - wanted));
    } else { /* in the next epoch */
        r->wanted = smaller(wanted, later);
        r->skipped = first + smaller(WARM_UP, later - r->wanted);
    }
}

static bool is_recording(const run_profile *r)
{
    return r->profile && !r->over;
}

static bool begin(run_profile *r)
{
    haul_scope   *scope = haul_scope_push();
    haul_profile *profile = scope ? haul_profile_begin(.everywhere = true) : NULL;
    r->profile = profile ? haul_keep(profile) : NULL;
    if (!profile)
        complain_error();
    if (scope)
        haul_scope_pop(scope);
    return r->profile != NULL;
}

bool run_profile_before(run_profile *r)
{
    return r->wanted == 0 || r->profile || r->seen < r->skipped || begin(r);
}

bool run_profile_after(run_profile *r)
{
    r->seen++;
    if (!is_recording(r))
        return true;
    if (haul_profile_step(r->profile)) {
        complain_error();
        return false;
    }
    return ++r->taken < r->wanted || run_profile_end(r);
}

bool run_profile_end(run_profile *r)
{
    if (!is_recording(r))
        return true;
    r->over = true;
    return !haul_profile_end(r->profile) || !complain_error();
}

/* Without peaks the tables lack only what limits an operation. */
static void set_peaks(haul_profile *profile, haul_device *device)
{
    haul__peaks peaks;
    if (haul__measure_peaks(device, &peaks))
        haul_profile_set_peak(profile, device, peaks.flops, peaks.bytes);
    haul_error_clear();
}

/* "no findings"; "2 findings: 0.65 ms a step (12.0 %), see haul audit runs/first". The time is that without
 * compilation. */
static void tell_audit(const haul_finding *findings, int count, double step_ms, const char *folder, char *out,
                       size_t size)
{
    char   name[1024];
    double ms = 0;
    for (int i = 0; i < count && i < MOST_FINDINGS; i++)
        ms += findings[i].kind == HAUL_FINDING_COMPILATION ? 0 : findings[i].ms_per_step;
    if (count == 0)
        snprintf(out, size, "no findings");
    else
        snprintf(out, size, "%d finding%s: %s a step (%.1f %%), see haul audit %s", count, count == 1 ? "" : "s",
                 text_seconds(ms / 1e3), 100 * ms / step_ms, shell_text(name, sizeof name, folder));
}

bool run_profile_audit(run_profile *r, const char *folder, char *out, size_t size)
{
    haul_finding         findings[MOST_FINDINGS];
    haul_profile_summary summary;
    if (!r->profile)
        return true;
    if (!run_profile_end(r))
        return false;
    int count = haul_profile_audit(r->profile, findings, MOST_FINDINGS);
    if (count < 0 || haul_profile_summary_get(r->profile, &summary)) {
        complain_error();
        return false;
    }
    tell_audit(findings, count, summary.steady_ms, folder, out, size);
    return true;
}

bool run_profile_save(run_profile *r, haul_device *device, const char *folder)
{
    if (!r->profile)
        return true;
    if (!run_profile_end(r))
        return false;
    set_peaks(r->profile, device);
    if (device != haul_cpu())
        set_peaks(r->profile, haul_cpu());
    return !haul_profile_save(r->profile, folder) || !complain_error();
}

void run_profile_close(run_profile *r)
{
    if (r->profile)
        haul_release(r->profile);
    r->profile = NULL;
}
