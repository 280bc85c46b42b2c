// What there is on this machine: kernel, chip, drivers and their nodes, whether this user may open
// them. Nothing that names the machine or its user.
#pragma once

#include <jansson.h>
#include <stddef.h>

/// {"kernel", "machine", "board", "compatible", "chip", "modules": [...], "nodes": [{"path",
/// "driver", "mode", "owner", "opens", "why"}], "hints": [...]}. The caller's.
json_t *facts_look(void);

/// Puts "(host)", "(user)" and "(home)" where this machine's and this user's names stand in text,
/// in the strings of a value and below; returns it.
json_t *facts_without_names(json_t *value);
