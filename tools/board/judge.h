// What a target has answered, beside what each hypothesis would give: nothing but comparison.
#pragma once

#include <jansson.h>

#include "tools/board/kit.h"

/// {"is": "ok" | "other" | "wrong" | "failed", …} of a probe and try_probe()'s answer:
///   ok      it is as the default of rknnd says ("hypothesis" is its id)
///   other   another hypothesis of the probe fits, and "switch" is what rknnd would have to change
///   wrong   none does: "first" is the first value that is not the default's: {"tensor", "node",
///           "index", "expected", "seen"}, "n_wrong" of "n"
///   failed  "words"
/// The caller's.
json_t *judge_answer(const struct kit *k, json_t *probe, json_t *answer);
