// Who knows a model, and who pays for it. Models with load options share the file, and all of this,
// with their original.
#pragma once

#include "server/models/model.h"

struct user;

/// Whether the user has brought these very bytes. To all others the model is not there.
bool model_is_known(const struct model *m, const struct user *u);

/// From now on the user knows it: he has brought the bytes, and calls them that.
int model_learn(struct model *m, struct user *u, const char *name, struct error *e);

/// What he calls it: file.name is what the one did who was first. "": he does not know it.
const char *model_name_for(const struct model *m, const struct user *u);

/// Takes a reference for a user who knows the model. While somebody holds it, one of those pays for
/// its bytes. Nothing is taken on failure.
int model_hold(struct model *m, struct user *u, struct error *e);

/// Gives that up, and the reference.
void model_release(struct model *m, struct user *u);

/// Nobody holds it any more, and it goes.
void model_forget_users(struct model *m);
