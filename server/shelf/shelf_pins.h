// Stored models that stay loaded: the option preload. Each is used, as by a context, from the start
// on; when its name means another version, that one is loaded first, and then the old one let go.
#pragma once

#include "base/list.h"

struct options;
struct shelf;
struct uploads;
struct users;

// Embedded by the server.
struct shelf_pins {
    struct shelf *shelf;
    struct uploads *uploads;
    struct users *users;
    const struct options *options;
    struct list all;
    bool closed;
};

void shelf_pins_init(struct shelf_pins *p, struct shelf *shelf, struct uploads *uploads,
                     struct users *users, const struct options *options);

/// Looks at the options and the model store again. What cannot be loaded is logged, and stays as it
/// was.
void shelf_pins_update(struct shelf_pins *all);

/// Lets all go, for good.
void shelf_pins_close(struct shelf_pins *all);

/// How many are loaded.
unsigned shelf_pins_count(const struct shelf_pins *all);
