// Options behind the chip's name, in any order.
#include "npu/open/provider/emu_standin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"

// Registers of addresses that blocks write to: the old and the new generation's DPU, and the
// pool's.
#define DPU_OUTPUT_OLD 0x4020u
#define DPU_OUTPUT_NEW 0x4018u
#define POOL_OUTPUT    0x6070u

static const char *const faults[] = {[EMU_FAULT_WRONG] = "wrong",
                                     [EMU_FAULT_TIMEOUT] = "timeout",
                                     [EMU_FAULT_HANG] = "hang",
                                     [EMU_FAULT_CRASH] = "crash"};

// Digits and nothing else.
static bool take_number(const char *text, unsigned long *ret)
{
    char *end;
    errno = 0;
    *ret = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

// KIND@N.
static bool take_fault(struct emu_standin *s, const char *word)
{
    for (size_t i = EMU_FAULT_WRONG; i < sizeof faults / sizeof *faults; i++) {
        size_t n = strlen(faults[i]);
        if (strncmp(word, faults[i], n) == 0 && word[n] == '@') {
            s->fault = (enum emu_fault)i;
            return take_number(word + n + 1, &s->at_job);
        }
    }
    return false;
}

// NAME=N, by the names of tensor/arithmetic.h.
static bool take_switch(struct emu_standin *s, const char *word)
{
    unsigned long choice;
    for (int i = 0; i < CHIP_N_SWITCHES; i++) {
        const char *name = chip_switch_name((enum chip_switch)i);
        size_t n = strlen(name);
        if (strncmp(word, name, n) != 0 || word[n] != '=')
            continue;
        if (!take_number(word + n + 1, &choice) || choice >= CHIP_SWITCH_CHOICES)
            return false;
        s->chosen[i] = true;
        s->choices[i] = (uint8_t)choice;
        return true;
    }
    return false;
}

int emu_standin_parse(const char *text, struct emu_standin *ret, struct error *e)
{
    struct emu_standin s = {0};
    cleanup(free_p) char *copy = strdup(text);
    char *rest = copy;
    if (!copy)
        return error_no_memory(e, "options", strlen(text));
    snprintf(s.chip, sizeof s.chip, "%s", strsep(&rest, ","));
    for (const char *word; (word = strsep(&rest, ","));)
        if (strcmp(word, "races") == 0)
            s.races = true;
        else if (strcmp(word, "others") == 0)
            s.others = true;
        else if (!take_fault(&s, word) && !take_switch(&s, word))
            return error_set(e, STATUS_PARAM_INVALID,
                             "emu:%s: \"%.60s\" is not wrong@N, timeout@N, hang@N, crash@N, races, "
                             "others or SWITCH=0 or 1, with a switch of docs/board-testing.md",
                             s.chip, word);
    *ret = s;
    return 0;
}

void emu_standin_choose(const struct emu_standin *s, struct emu_npu *npu)
{
    for (int i = 0; i < CHIP_N_SWITCHES; i++)
        if (s->chosen[i])
            emu_npu_choose(npu, (enum chip_switch)i, s->choices[i]);
}

// A hang is for the daemon's limit of a job, which ends the process.
int emu_standin_before(struct emu_standin *s, bool *ret_wrong, struct error *e)
{
    *ret_wrong = false;
    s->n_jobs++;
    if (!s->fault || (s->at_job && s->at_job != s->n_jobs))
        return 0;
    if (s->fault == EMU_FAULT_CRASH)
        abort();
    while (s->fault == EMU_FAULT_HANG)
        pause();
    *ret_wrong = s->fault == EMU_FAULT_WRONG;
    return s->fault == EMU_FAULT_TIMEOUT
               ? error_set(e, STATUS_TIMEOUT, "it ends without its interrupt (an injected fault)")
               : 0;
}

// Programs that say only what differs from those before may not name it.
uint64_t emu_standin_output(const uint8_t *commands, uint32_t n, bool new_registers)
{
    uint32_t dpu = new_registers ? DPU_OUTPUT_NEW : DPU_OUTPUT_OLD;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t word = read_le64(commands + 8 * (size_t)i);
        uint32_t reg = (uint32_t)(word & 0xffff), value = (uint32_t)(word >> 16);
        if ((reg == dpu || reg == POOL_OUTPUT) && value)
            return value;
    }
    return 0;
}
