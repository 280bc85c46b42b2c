#include "server/runner/plain_environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Names, and with "*" beginnings of names: where libraries lie and how they work, what a vendor's
// runtime, OpenCL and plugins are told, words and times, where D-Bus is (of rknnd-announce), and
// tools that watch processes.
static const char *const passed[] = {"LD_*",
                                     "PATH",
                                     "HOME",
                                     "TMPDIR",
                                     "LANG",
                                     "LANGUAGE",
                                     "LC_*",
                                     "TZ",
                                     "RK*",
                                     "ONEDNN_*",
                                     "DNNL_*",
                                     "OMP_*",
                                     "GOMP_*",
                                     "KMP_*",
                                     "OCL_*",
                                     "OPENCL_*",
                                     "MALI_*",
                                     "MALLOC_*",
                                     "GLIBC_*",
                                     "ASAN_*",
                                     "LSAN_*",
                                     "TSAN_*",
                                     "UBSAN_*",
                                     "GCOV_*",
                                     "VALGRIND_*",
                                     "GLIBCPP_*",
                                     "QEMU_*",
                                     "LLVM_PROFILE_*",
                                     "DBUS_SYSTEM_BUS_ADDRESS"};

static bool is_passed(const char *text)
{
    size_t n = strcspn(text, "=");
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        size_t size = strlen(passed[i]);
        bool begins = passed[i][size - 1] == '*';
        size -= begins;
        if ((begins ? n >= size : n == size) && strncmp(text, passed[i], size) == 0)
            return true;
    }
    return false;
}

char **plain_environment(void)
{
    size_t n = 0, at = 0;
    while (environ && environ[n])
        n++;
    char **ret = calloc(n + 1, sizeof *ret);
    for (size_t i = 0; ret && i < n; i++)
        if (is_passed(environ[i]))
            ret[at++] = environ[i];
    return ret;
}

void free_environment(char ***array)
{
    free(*array);
}
