// Reads the options of the backend, from the daemon's command line: "rk3588,paced,crash@3:yolo*".
// The grammar is in sim_options.h. Everything that is not understood is refused, with the word in
// the error.
#include "npu/sim/sim_options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const fault_names[] = {
    [FAULT_SLOW] = "slow",   [FAULT_HANG] = "hang",     [FAULT_CRASH] = "crash",
    [FAULT_WRONG] = "wrong", [FAULT_MEMORY] = "memory",
};

// A number that is all of the text up to `end`. strtod also takes white space and signs in front
// and "inf", which are refused here.
static bool read_number(const char *text, const char *end, double *ret)
{
    char *stop;
    if (text == end || strchr(" \t\n+-", *text))
        return false;
    *ret = strtod(text, &stop);
    return stop == end && isfinite(*ret);
}

static enum sim_fault fault_kind(const char *text, size_t length)
{
    for (size_t i = 1; i < sizeof fault_names / sizeof *fault_names; i++)
        if (strlen(fault_names[i]) == length && strncmp(text, fault_names[i], length) == 0)
            return (enum sim_fault)i;
    return FAULT_NONE;
}

// KIND@N or KIND%P, then perhaps :GLOB; false: it is neither. N up to 10^15 is exact in a double.
static bool read_fault(const char *word, struct sim_fault_rule *ret)
{
    const char *at = strpbrk(word, "@%"), *colon = at ? strchr(at, ':') : NULL;
    const char *models = colon ? colon + 1 : "*";
    double n;
    if (!at || !read_number(at + 1, colon ? colon : at + strlen(at), &n))
        return false;
    bool by_chance = *at == '%';
    if (by_chance ? n > 100 : n < 1 || n > 1e15 || n != floor(n))
        return false;
    *ret = (struct sim_fault_rule){.kind = fault_kind(word, (size_t)(at - word)),
                                   .at_job = by_chance ? 0 : (uint64_t)n,
                                   .chance = by_chance ? n / 100 : 0};
    int length = snprintf(ret->models, sizeof ret->models, "%s", models);
    return ret->kind != FAULT_NONE && length > 0 && length < (int)sizeof ret->models;
}

static int add_fault(struct sim_options *o, const char *word, struct error *e)
{
    if (o->n_faults == SIM_MAX_FAULTS)
        return error_set(e, STATUS_PARAM_INVALID, "backend sim: more than %d faults",
                         SIM_MAX_FAULTS);
    if (!read_fault(word, &o->faults[o->n_faults]))
        return error_set(e, STATUS_PARAM_INVALID,
                         "backend sim: option \"%s\" is not paced, speed=F, programs=GLOB, strict, "
                         "or a fault such as "
                         "crash@3 or hang%%0.5:MODEL (slow, hang, crash, wrong, memory)",
                         word);
    o->n_faults++;
    return 0;
}

// speed=F implies paced.
static int read_speed(struct sim_options *o, const char *text, struct error *e)
{
    if (!read_number(text, text + strlen(text), &o->speed) || o->speed < 1e-6 || o->speed > 1e6)
        return error_set(e, STATUS_PARAM_INVALID,
                         "backend sim: speed=%s is not a number from 0.000001 to 1000000", text);
    o->paced = true;
    return 0;
}

static int read_programs(struct sim_options *o, const char *pattern, struct error *e)
{
    size_t n = strlen(pattern);
    if (!n || n >= sizeof o->programs)
        return error_set(e, STATUS_PARAM_INVALID,
                         "backend sim: programs=%s is no pattern of 1 to %zu characters", pattern,
                         sizeof o->programs - 1);
    memcpy(o->programs, pattern, n + 1);
    return 0;
}

// One option behind the chip.
static int read_word(struct sim_options *o, const char *word, struct error *e)
{
    if (strcmp(word, "paced") == 0) {
        o->paced = true;
        return 0;
    }
    if (strcmp(word, "strict") == 0) {
        o->strict = true;
        return 0;
    }
    if (strncmp(word, "speed=", 6) == 0)
        return read_speed(o, word + 6, e);
    if (strncmp(word, "programs=", 9) == 0)
        return read_programs(o, word + 9, e);
    return add_fault(o, word, e);
}

static int read_chip(struct sim_options *o, const char *name, struct error *e)
{
    bool any = !*name || strcmp(name, "any") == 0;
    char names[CHIP_NAMES_MAX];
    o->chip = any ? NULL : chip_find(name);
    if (!any && !o->chip)
        return error_set(e, STATUS_PARAM_INVALID, "chip \"%s\" is not known; these are: %s, any",
                         name, chip_names(names));
    return 0;
}

// Words are cut out of a copy. Of an empty text the chip is "any".
int sim_options_parse(const char *text, struct sim_options *ret, struct error *e)
{
    cleanup(free_p) char *copy = strdup(text);
    char *rest = copy;
    *ret = (struct sim_options){.speed = 1};
    if (!copy)
        return error_no_memory(e, "options", strlen(text));
    int r = read_chip(ret, strsep(&rest, ","), e);
    while (r == 0 && rest)
        r = read_word(ret, strsep(&rest, ","), e);
    return r;
}
