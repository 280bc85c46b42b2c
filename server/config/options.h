// What the command line and the configuration file say.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "server/clients/quota.h"
#include "server/clients/rights.h"
#include "worker/sandbox/sandbox_policy.h"

#define OPTIONS_MAX_LISTEN  16
#define PLUGIN_DIR          "/usr/lib/rknpu/op_plugins" // the SDK guide's, 5.5.4.4
#define OPTIONS_MAX_QUOTAS  64
#define OPTIONS_MAX_PRELOAD 64

// Names, defaults and ranges: the table in options_rows.c, which is also what --help prints. Texts
// are owned by the struct.
struct options {
    int argc; // the command line; stays
    char **argv;
    bool check_config;                // say whether these options are good, and end
    char *listen[OPTIONS_MAX_LISTEN]; // URIs; none: the default socket
    uint32_t n_listen;
    char *relay;        // NULL: serve models
    char *http;         // URI; NULL: no HTTP
    bool insecure;      // TCP off the loopback interface
    bool announce;      // by mDNS
    char *tls_psk_file; // keys of TLS; NULL, like the other three: none
    char *tls_cert, *tls_key, *tls_ca, *tls_crl;
    char *socket_group;  // NULL: the process's own group
    int64_t adopt_fd;    // -1: none
    int64_t takeover_fd; // -1: no daemon before this one
    int64_t worker_fd;   // -1: this is the daemon
    int64_t guard_fd;    // -1: it is not usb_guard.h's process either
    char *backend;
    char *backend_options; // "" when there are none
    char *module_dir;      // NULL: the installed one
    char *plugin_dir;      // NULL: PLUGIN_DIR
    char *buffers;         // NULL: auto
    bool threads;          // --isolation=thread
    enum sandbox_mode sandbox;
    char *worker_user; // NULL: nobody
    struct quota quotas[OPTIONS_MAX_QUOTAS];
    uint32_t n_quotas;
    struct account_amounts limits;         // in all; 0: what the machine allows
    struct account_amounts program_limits; // of each program; 0: what others leave
    struct rights rights;

    uint32_t max_connections;
    uint32_t max_contexts;       // of one session
    uint32_t max_memories;       // of one session
    uint64_t max_memory;         // bytes of them
    uint32_t max_inflight;       // unanswered requests of one connection
    uint64_t max_inflight_bytes; // in job buffers, of one connection
    uint32_t costly_percent;     // of the loop's time, for one connection's costly messages
    uint64_t max_payload;        // bytes of one frame's payload
    uint64_t max_model_size;
    uint64_t max_models_size;           // all model files together; 0: 3/4 of the machine's memory
    char *model_store;                  // folder; NULL: none
    char *preload[OPTIONS_MAX_PRELOAD]; // NAME or NAME@VERSION of what stays loaded
    uint32_t n_preload;
    uint64_t max_loaded_size; // bytes of loaded models, above which idle ones go; 0: half of memory
    uint64_t model_cache;     // bytes of model files kept without a context
    uint32_t upload_ttl_s;
    uint32_t worker_idle_s;
    uint32_t heartbeat_ms;
    uint32_t peer_timeout_ms;
    uint32_t job_timeout_ms; // 0: by the device
    uint32_t hold_timeout_ms;
    uint32_t slice_us;
    uint32_t load_timeout_ms;
    uint32_t drain_timeout_ms;
    uint32_t retire_timeout_s;
    uint32_t trace_events; // that are kept
    char *sysfs;           // NULL: "/sys"
    char *subuid;          // NULL: "/etc/subuid"
};

/// Sets the defaults; to be followed by options_done() whatever happens.
void options_init(struct options *o);
void options_done(struct options *o);

/// Forget the addresses to listen on, and the models to preload.
void options_forget_listen(struct options *o);
void options_forget_preload(struct options *o);

/// Names of options, as a list for people.
struct options_names {
    char text[512]; // "quota, max-models-size"; "": none
};

/// Takes over from `fresh` what can change while the daemon runs; `fresh` gets the old texts.
/// Names what was changed, and what differs but counts from the next start only.
void options_update(struct options *o, struct options *fresh, struct options_names *ret_changed,
                    struct options_names *ret_kept);
