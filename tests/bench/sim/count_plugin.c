// A plugin of QEMU's user emulation (qemu-aarch64 of Debian's qemu-user; the static one takes
// none): prints how many instructions a program has executed, and with the argument functions=on
// how many of them in each of its functions; "elsewhere" is in libraries. Debian 12 has no header
// for plugins, so what is used of their interface, version 1, is declared here.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;

#define ADD_U64 0

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const char *qemu_plugin_insn_symbol(const struct qemu_plugin_insn *insn);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*call)(plugin_id id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *to,
                                              uint64_t n);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*call)(plugin_id id, void *user),
                                    void *user);
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

#define MAX_FUNCTIONS 16384

struct function {
    const char *name;
    uint64_t executed;
};

static struct function functions[MAX_FUNCTIONS] = {{.name = "elsewhere"}};
static size_t n_functions = 1;
static int by_function;

static uint64_t *count_of(const char *name)
{
    if (!name || !by_function)
        return &functions[0].executed;
    for (size_t i = 1; i < n_functions; i++)
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i].executed;
    char *copy = strdup(name);
    if (n_functions == MAX_FUNCTIONS || !copy)
        abort();
    functions[n_functions].name = copy;
    return &functions[n_functions++].executed;
}

// A block of instructions was translated: each time it is entered, it counts all of them. A block
// ends with its function, at the latest.
static void count_block(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    const char *name = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(tb, 0));
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, count_of(name),
                                             qemu_plugin_tb_n_insns(tb));
}

static void print_count(plugin_id id, void *user)
{
    (void)id, (void)user;
    uint64_t all = 0;
    for (size_t i = 0; i < n_functions; i++) {
        all += functions[i].executed;
        if (by_function)
            fprintf(stderr, "%" PRIu64 " in %s\n", functions[i].executed, functions[i].name);
    }
    fprintf(stderr, "instructions: %" PRIu64 "\n", all);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info,
                                                               int argc, char **argv)
{
    (void)info;
    by_function = argc > 0 && strcmp(argv[0], "functions=on") == 0;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
    qemu_plugin_register_atexit_cb(id, print_count, NULL);
    return 0;
}
