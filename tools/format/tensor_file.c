// Names of files for a model's tensors: NUMBER_NAME.npy, sortable in the order of execution.
#include "tools/format/tensor_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Names come from the model file: all but letters, digits, dot, underscore and hyphen is replaced,
// so that no name leaves the folder. The number keeps names apart that become the same.
char *tensor_file_name(const char *folder, uint32_t number, const char *name, const char *suffix)
{
    char *path, text[100];
    snprintf(text, sizeof text, "%.*s", (int)sizeof text - 1, name);
    for (char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '_';
    return asprintf(&path, "%s/%04u_%s%s", folder, number, text, suffix) < 0 ? NULL : path;
}

// A folder that is there already is fine.
int tensor_folder_make(const char *folder, struct error *e)
{
    struct stat st;
    int error = mkdir(folder, 0777) == 0 ? 0 : errno;
    if (error == EEXIST && stat(folder, &st) == 0)
        error = S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    return error ? error_set(e, STATUS_FAIL, "folder %s: %s", folder, strerror(error)) : 0;
}
