// test_sim_refusals FOLDER: the spoilt models that tests/rknnwriter/cases wrote. None of them
// loads, and the message has the words that are expected.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "tests/unit/sim_run.h"

#define MAX_CASES 256

static const char *folder;

struct one_case {
    char name[128], words[160];
};

static void refuse_case(void **state)
{
    const struct one_case *c = *state;
    char path[512];
    struct error e = {0};
    struct sim_run s;
    snprintf(path, sizeof path, "%s/%s.rknn", folder, c->name);
    int r = sim_run_init(&s, path, &e);
    sim_run_done(&s);
    if (r == 0)
        fail_msg("%s was loaded", c->name);
    if (!strstr(e.text, c->words))
        fail_msg("%s: \"%s\" does not say \"%s\"", c->name, e.text, c->words);
}

static size_t read_list(struct one_case *cases)
{
    char path[512];
    snprintf(path, sizeof path, "%s/words.txt", folder);
    cleanup(fclose_p) FILE *f = fopen(path, "r");
    size_t n = 0;
    while (f && n < MAX_CASES && fscanf(f, "%127s %159[^\n]", cases[n].name, cases[n].words) == 2)
        n++;
    return n;
}

int main(int argc, char **argv)
{
    static struct one_case cases[MAX_CASES];
    struct CMUnitTest tests[MAX_CASES] = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    size_t n = read_list(cases);
    if (n == 0) {
        fprintf(stderr, "%s/words.txt: no cases; `python3 -m rknnwriter.cases` writes them\n",
                folder);
        return 2;
    }
    for (size_t i = 0; i < n; i++)
        tests[i] = (struct CMUnitTest){
            .name = cases[i].name, .test_func = refuse_case, .initial_state = &cases[i]};
    return _cmocka_run_group_tests("refusals", tests, n, NULL, NULL);
}
