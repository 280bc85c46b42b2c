#include "base/file/trust.h"

#include <sys/stat.h>

int trust_check(const char *path, struct error *e)
{
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode) || !(st.st_mode & S_IWOTH))
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "everybody may write to %s, and so say what this program does: chmod o-w it",
                     path);
}
