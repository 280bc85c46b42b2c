// Lists of cases.
#include "tests/unit/sim/sim_cases.h"

#include <stdio.h>

#include "base/cleanup.h"

#define MAX_CASES 1024

const char *sim_cases_folder;

static size_t read_list(const char *path, struct sim_case *cases)
{
    cleanup(fclose_p) FILE *f = fopen(path, "r");
    size_t n = 0;
    while (f && n < MAX_CASES && fscanf(f, "%127s %159[^\n]", cases[n].name, cases[n].rest) == 2)
        n++;
    return n;
}

int sim_cases_main(int argc, char **argv, const char *group, const char *list,
                   CMUnitTestFunction test)
{
    static struct sim_case cases[MAX_CASES];
    struct CMUnitTest tests[MAX_CASES] = {0};
    char path[512];
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    sim_cases_folder = argv[1];
    snprintf(path, sizeof path, "%s/%s", argv[1], list);
    size_t n = read_list(path, cases);
    if (n == 0) {
        fprintf(stderr, "%s: no cases; `python3 -m rknncases` writes them\n", path);
        return 2;
    }
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = test, .initial_state = &cases[i]};
    return _cmocka_run_group_tests(group, tests, n, NULL, NULL);
}
