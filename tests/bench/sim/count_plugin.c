// A plugin of QEMU's user emulation (qemu-aarch64 of Debian's qemu-user; the static one takes
// none): prints how many instructions a program has executed. Debian 12 has no header for plugins,
// so what is used of their interface, version 1, is declared here.
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

#define ADD_U64 0

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*call)(plugin_id id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int op, void *to,
                                              uint64_t n);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*call)(plugin_id id, void *user),
                                    void *user);
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;

static uint64_t executed;

// A block of instructions was translated: each time it is entered, it counts all of them.
static void count_block(plugin_id id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &executed, qemu_plugin_tb_n_insns(tb));
}

static void print_count(plugin_id id, void *user)
{
    (void)id, (void)user;
    fprintf(stderr, "instructions: %" PRIu64 "\n", executed);
}

__attribute__((visibility("default"))) int qemu_plugin_install(plugin_id id, const void *info,
                                                               int argc, char **argv)
{
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, count_block);
    qemu_plugin_register_atexit_cb(id, print_count, NULL);
    return 0;
}
