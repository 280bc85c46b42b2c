// Tests of model files that tests/rknncases wrote: one cmocka test for each line of a list.
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct sim_case {
    char name[128], rest[160]; // the line's first word; what stands behind it
};

/// The folder that the program was given.
extern const char *sim_cases_folder;

/// All of main(): runs test(&case) for each case of FOLDER/`list`. `group` names them.
int sim_cases_main(int argc, char **argv, const char *group, const char *list,
                   CMUnitTestFunction test);
