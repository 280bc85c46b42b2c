#include "server/modules.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef RKNND_INSTALL_MODULE_DIR
#error "RKNND_INSTALL_MODULE_DIR says where the backends are installed"
#endif

static const char *const places[] = {"/../" RKNND_INSTALL_MODULE_DIR, "/../lib/rknnd"};

#define N_PLACES (sizeof places / sizeof *places)

// Names of the backends in a folder, with what stands between them.
static void list_backends(const char *folder, char *ret, size_t size)
{
    char pattern[4200];
    glob_t found = {0};
    size_t n = strlen(ret);
    snprintf(pattern, sizeof pattern, "%s/npu-*.so", folder);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && n < size; i++) {
            const char *name = strrchr(found.gl_pathv[i], '/') + strlen("/npu-");
            n += (size_t)snprintf(ret + n, size - n, "%s%.*s", n ? ", " : "",
                                  (int)(strlen(name) - strlen(".so")), name);
        }
    globfree(&found);
}

static int refuse(const struct options *o, const char *program, struct error *e)
{
    char folder[MODULES_DIR_SIZE], there[256] = "";
    bool two = strcmp(places[0], places[1]) != 0;
    for (size_t i = 0; i < (two ? N_PLACES : 1); i++) {
        snprintf(folder, sizeof folder, "%s%s", program, places[i]);
        list_backends(folder, there, sizeof there);
    }
    return error_set(e, STATUS_DEVICE_UNAVAILABLE,
                     "there is no backend \"%.64s\" (npu-%.64s.so) in %s%s%s%s%s: %s%s%s",
                     o->backend, o->backend, program, places[0], two ? " or in " : "",
                     two ? program : "", two ? places[1] : "",
                     *there ? "there is " : "there is none", there,
                     strcmp(o->backend, "emu") == 0 || strcmp(o->backend, "open") == 0
                         ? "; it is in package rknnd-npu-sim"
                     : strcmp(o->backend, "sim") == 0
                         ? "; install the software NPU (package rknnd-npu-sim), or use the board's "
                           "NPU: --backend vendor, in /etc/rknnd.conf: backend = vendor"
                         : "");
}

int modules_find(const struct options *o, char ret[static MODULES_DIR_SIZE], struct error *e)
{
    char program[2048], path[4200];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n < 0)
        return error_set_errno(e, STATUS_FAIL, errno,
                               "/proc/self/exe (rknnd needs /proc, in a container too)");
    program[n] = 0;
    *strrchr(program, '/') = 0;
    if (o->module_dir && strlen(o->module_dir) >= MODULES_DIR_SIZE)
        return error_set(e, STATUS_PARAM_INVALID, "module-dir is too long");
    if (o->module_dir) {
        strcpy(ret, o->module_dir);
        return 0;
    }
    for (size_t i = 0; i < N_PLACES; i++) {
        snprintf(ret, MODULES_DIR_SIZE, "%s%s", program, places[i]);
        snprintf(path, sizeof path, "%s/npu-%.64s.so", ret, o->backend);
        if (access(path, F_OK) == 0)
            return 0;
    }
    return refuse(o, program, e);
}
