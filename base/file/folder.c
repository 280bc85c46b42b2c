#include "base/file/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"

// mkdir() of what is there says EEXIST, but not of a folder whose parent or medium refuses first.
static int make_one(const char *path, mode_t mode, struct error *e)
{
    struct stat st;
    if (mkdir(path, mode) == 0)
        return 0;
    int why = errno;
    if (stat(path, &st) < 0)
        return error_set_errno(e, STATUS_FAIL, why, "the folder %s cannot be made", path);
    return S_ISDIR(st.st_mode) ? 0 : error_set(e, STATUS_FAIL, "%s is no folder", path);
}

// `path` is changed on the way and is the same in the end.
static int make_each(char *path, mode_t above, mode_t mode, struct error *e)
{
    int r = 0;
    for (char *end = strchr(path, '/'); r == 0 && end; end = strchr(end + 1, '/')) {
        *end = 0;
        if (*path) // else the root
            r = make_one(path, above, e);
        *end = '/';
    }
    return r < 0 ? r : make_one(path, mode, e);
}

int folder_make(const char *path, mode_t above, mode_t mode, struct error *e)
{
    cleanup(free_p) char *copy = strdup(path);
    return copy ? make_each(copy, above, mode, e) : error_no_memory(e, "a path", 0);
}

// "a/b" is in "a", "/b" in "/", "b" in ".".
static char *folder_of(const char *file)
{
    const char *slash = strrchr(file, '/');
    if (!slash)
        return strdup(".");
    return strndup(file, slash == file ? 1 : (size_t)(slash - file));
}

int folder_make_above(const char *file, mode_t mode, struct error *e)
{
    cleanup(free_p) char *folder = folder_of(file);
    return folder ? make_each(folder, mode, mode, e) : error_no_memory(e, "a path", 0);
}

int folder_open_of(const char *file, struct error *e)
{
    cleanup(free_p) char *folder = folder_of(file);
    if (!folder)
        return error_no_memory(e, "a path", 0);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_set_errno(e, STATUS_FAIL, errno, "%s", folder) : fd;
}
