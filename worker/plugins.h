// Plugins: libraries librkcst_*.so that compute operators which neither device nor program knows
// (SDK guide, 5.5.4.4). Their code runs where models run: in the worker.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "rknn_custom_op.h"
#include "worker/breadcrumbs.h"

struct plugin;

// Opened when the first operator is looked for. Zeroed and initialised it is closed. Any thread.
struct plugins {
    pthread_mutex_t lock;
    const char *dir;                 // "": there are none
    uid_t owner;                     // the service's user, who may own plugins
    const char *module_dir;          // has client/librknnrt.so, for plugins linked with it
    struct breadcrumbs *breadcrumbs; // of the worker; NULL: none
    bool open;
    struct plugin *first;
    struct error unusable; // about the last one that could not be used; code 0: there was none
};

/// The process's user at this time is the service's: before a sandbox changes it.
void plugins_init(struct plugins *p, const char *dir, const char *module_dir,
                  struct breadcrumbs *breadcrumbs);

/// After the last operator is gone. The libraries stay loaded.
void plugins_done(struct plugins *p);

/// What computes operators of this type, and the file that it is in (*ret_path). NULL, with an
/// error that names plugins that could not be used, if there is nothing. May block.
const rknn_custom_op *plugins_find(struct plugins *p, const char *type, const char **ret_path,
                                   struct error *e);
