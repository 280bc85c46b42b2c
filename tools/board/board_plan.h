// What `rknnctl board-test` was asked for.
#pragma once

#include <stdbool.h>

#include "tools/ui/text_list.h"

struct board_plan {
    const char *output;       // the file to send
    const char *page;         // NULL: beside it
    const char *server;       // tried in place of this machine's drivers; NULL: none
    const char *chip;         // NULL: this machine's
    const char *models;       // folder of kits; NULL: the installed ones
    const char *journal;      // NULL: the usual place
    struct text_list only;    // probes by name; none: all that are not risky
    struct text_list targets; // ways to the NPU by name; none: all
    bool json;
};
