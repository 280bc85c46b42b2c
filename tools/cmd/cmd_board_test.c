// rknnctl board-test: for people with a board. What there is, and whether it computes as rknnd
// takes it to.
#include "tools/board/board_test.h"
#include "tools/rknnctl.h"
#include "tools/ui/cmd_options.h"

int cmd_board_test(const struct settings *settings, int argc, char **argv, struct error *e)
{
    struct board_plan plan = {.output = "board-test.tar.xz"};
    bool list = false;
    const struct option_row rows[] = {
        OPTIONS_OUTPUT(&plan.output, "FILE", "the file to send (default board-test.tar.xz)"),
        {0, "page", OPTION_TEXT, &plan.page, "FILE", "the page to read (default beside it)", 0, 0,
         NULL},
        {0, "probe", OPTION_CALL, &plan.only, "NAME", "only this; risky ones need it", 0, 0,
         text_list_option},
        {0, "way", OPTION_CALL, &plan.targets, "NAME", "only this way to the NPU", 0, 0,
         text_list_option},
        {0, "probes", OPTION_FLAG, &list, NULL, "say which probes there are, and end", 0, 0, NULL},
        {0, "chip", OPTION_TEXT, &plan.chip, "CHIP", "models for this chip", 0, 0, NULL},
        {0, "models", OPTION_TEXT, &plan.models, "FOLDER", "where they lie", 0, 0, NULL},
        {0, "journal", OPTION_TEXT, &plan.journal, "FILE", "where it is noted what is tried", 0, 0,
         NULL},
        OPTIONS_JSON(&plan.json),
    };
    const struct cmd_options options = {
        .usage = "board-test [-o FILE] [--probe NAME]…",
        .summary =
            "Looks at this board and its NPU, has every way to it compute tiny models and\n"
            "compares all values. At most ten minutes; ends with a page and a file to send.\n"
            "With --server that server is tried in place of this machine's drivers.",
        .rows = rows,
        .n_rows = sizeof rows / sizeof *rows,
    };
    int first, r = cmd_options_parse_n(&options, argc, argv, 0, 0, &first, e);
    plan.server = settings->server;
    if (r == 0)
        r = list ? board_test_list(&plan, e) : board_test_execute(&plan, e);
    text_list_done(&plan.only);
    text_list_done(&plan.targets);
    return r;
}
