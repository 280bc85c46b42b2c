// test_sim_refusals FOLDER: the spoilt models that tests/rknncases wrote. None of them
// loads, and the message has the words that are expected.
#include "tests/support/sim_run.h"
#include "tests/unit/sim/sim_cases.h"

static void refuse_case(void **state)
{
    const struct sim_case *c = *state;
    char path[512];
    struct error e = {0};
    struct sim_run s;
    snprintf(path, sizeof path, "%s/%s.rknn", sim_cases_folder, c->name);
    int r = sim_run_init(&s, path, &e);
    sim_run_done(&s);
    if (r == 0)
        fail_msg("%s was loaded", c->name);
    if (!strstr(e.text, c->rest))
        fail_msg("%s: \"%s\" does not say \"%s\"", c->name, e.text, c->rest);
}

int main(int argc, char **argv)
{
    return sim_cases_main(argc, argv, "refusals", "words.txt", refuse_case);
}
