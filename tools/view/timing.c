// Says whose times are shown (see timing.h), and names JSON members after that: "run_us" of an NPU,
// "machine_run_us" and "estimate_run_us" of a software NPU.
#include "tools/view/timing.h"

#include <stdio.h>
#include <string.h>

#include "base/text/computer.h"

// All that follows from one run's information; the same for all runs of a context.
struct timing timing_of(const rknnd_run_info *info)
{
    struct timing t = {.software = info->timing != RKNND_TIMING_DEVICE,
                       .paced = info->timing == RKNND_TIMING_PACED,
                       .assumed = info->estimate_assumed,
                       .n_unestimated = info->n_unestimated};
    memcpy(t.chip, info->estimate_chip, sizeof t.chip);
    return t;
}

// "time_us" becomes "machine_us", not "machine_time_us".
static const char *add_prefix(const char *prefix, const char *name, char room[static 64])
{
    snprintf(room, 64, "%s%s", prefix, strcmp(name, "time_us") == 0 ? "us" : name);
    return room;
}

const char *timing_name(const struct timing *t, const char *name, char room[static 64])
{
    return t->software ? add_prefix("machine_", name, room) : name;
}

// The estimate is dropped for an NPU, so that callers need not tell the two apart.
void timing_put(const struct timing *t, json_t *o, const char *name, json_t *measured,
                json_t *estimate)
{
    char room[64];
    json_object_set_new(o, timing_name(t, name, room), measured);
    if (t->software)
        json_object_set_new(o, add_prefix("estimate_", name, room), estimate);
    else
        json_decref(estimate);
}

json_t *timing_estimate(uint64_t ns)
{
    return ns ? json_real((double)ns / 1e3) : json_null();
}

json_t *timing_json(const struct timing *t)
{
    return json_pack("{s:s, s:b, s:o, s:b, s:I}", "device", t->software ? "software" : "npu",
                     "paced", t->paced, "estimate_chip",
                     *t->chip ? json_string(t->chip) : json_null(), "estimate_assumed", t->assumed,
                     "unestimated_layers", (json_int_t)t->n_unestimated);
}

// Two or three lines that say what the columns "Machine" and "Estimate" are.
void timing_print(const struct timing *t, const rknnd_server_info *server, FILE *out,
                  const char *indent)
{
    if (!t->software)
        return;
    fprintf(out, "%sMachine: what the %s took on the server's machine\n", indent,
            computer_name(server->backend));
    if (t->paced)
        fprintf(out, "%s         (paced: made to last as long as on the chip)\n", indent);
    if (!*t->chip) {
        fprintf(out, "%sEstimate: none, the server gives no chip's\n", indent);
        return;
    }
    fprintf(out, "%sEstimate: what the NPU of %s would take\n", indent, t->chip);
    if (t->n_unestimated)
        fprintf(out, "%s          (without %u layer%s that its CPU would do)\n", indent,
                t->n_unestimated, t->n_unestimated == 1 ? "" : "s");
    if (t->assumed)
        fprintf(out, "%s          (nobody has chosen a chip: --server sim:CHIP does)\n", indent);
}
