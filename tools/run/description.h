// A model file's description, asked of the server, and searched for names of tensors.
#pragma once

#include <jansson.h>

#include "base/options/nearest.h"
#include "tools/task.h"

/// Describes the task's model, in its shapes; *ret is the caller's to json_decref(). Also of models
/// that the server would refuse to run: then with a member "refused".
int description_get(const struct task *t, json_t **ret, struct error *e);

/// Texts and names in a description, made fit to be shown (base/text/text.h). Not for JSON, which
/// is for programs and tells what is there.
int description_make_printable(json_t **description, struct error *e);

/// The names of all tensors that the nodes of a description take and give.
void description_add_names(const json_t *description, struct nearest *near);
bool description_has_name(const json_t *description, const char *name);
