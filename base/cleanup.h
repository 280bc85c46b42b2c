// Scope-bound cleanup: `cleanup(free_p) char *s` frees at the end of the scope; steal_* hands over.
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define cleanup(function) __attribute__((cleanup(function)))

/// Defines NAME_p(), to be used with cleanup(), for a function that frees a `TYPE *` (NULL is
/// fine).
#define CLEANUP_DEFINE(type, function)                                                             \
    static inline void function##_p(type **p)                                                      \
    {                                                                                              \
        function(*p);                                                                              \
    }

static inline void free_p(void *p)
{
    free(*(void **)p);
}

static inline void fclose_p(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline void closedir_p(DIR **d)
{
    if (*d)
        closedir(*d);
}

/// Closes an fd that is not negative; errno is kept. Returns -1, so `fd = fd_close(fd)` works.
int fd_close(int fd);

static inline void fd_close_p(int *fd)
{
    fd_close(*fd);
}

static inline int steal_fd(int *fd)
{
    int stolen = *fd;
    *fd = -1;
    return stolen;
}

#define steal_ptr(pointer)                                                                         \
    ({                                                                                             \
        __typeof__(&(pointer)) p_ = &(pointer);                                                    \
        __typeof__(*p_) stolen_ = *p_;                                                             \
        *p_ = NULL;                                                                                \
        stolen_;                                                                                   \
    })
