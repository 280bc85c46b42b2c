// What is said of a board: lines on the terminal while it goes on, then the page and the file.
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "base/error.h"
#include "tools/board/board_plan.h"

/// Whether the two files can be written, before anything is tried.
int outcome_check_files(const struct board_plan *plan, struct error *e);

void outcome_show_facts(const json_t *facts, const char *chip);
void outcome_show_target(const json_t *target);
void outcome_show_verdict(const char *probe, const json_t *verdict);

/// Median and smallest of a trial's runs, and how long all of it took. `answer` NULL: not tried.
void outcome_add_times(json_t *verdict, const json_t *answer, uint64_t ms);

/// The page and the file to send, then where they are; with JSON the result itself. Takes `result`.
int outcome_write(const struct board_plan *plan, json_t *result, FILE *log, struct error *e);

/// The probes of a kit's table, and what needs a hand.
int outcome_list(const json_t *table, bool json, struct error *e);
