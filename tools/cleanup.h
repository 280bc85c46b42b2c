// Scope-bound cleanup for the tools, which use nothing of base/.
#pragma once

#include <stdio.h>
#include <stdlib.h>

#define cleanup(function) __attribute__((cleanup(function)))

static inline void free_p(void *p)
{
    free(*(void **)p);
}

static inline void fclose_p(FILE **f)
{
    if (*f)
        fclose(*f);
}
