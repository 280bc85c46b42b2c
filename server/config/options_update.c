// What changes in a daemon that reads its options again. Every option has a row here, and is in
// rknnd.conf(5): whether what runs can take a new value, and how two are compared. A field's bytes
// move as a whole, texts with their owner.
#include <stdio.h>
#include <string.h>

#include "server/config/options.h"

enum field_kind { FIELD_PLAIN, FIELD_TEXT, FIELD_TEXTS, FIELD_QUOTAS, FIELD_RIGHTS };

struct field {
    const char *name;
    enum field_kind kind;
    bool changes; // while the daemon runs; else its value counts from the next start
    size_t offset, size;
};

#define FIELD(NAME, KIND, CHANGES, MEMBER)                                                         \
    {                                                                                              \
        .name = (NAME), .kind = FIELD_##KIND, .changes = (CHANGES),                                \
        .offset = offsetof(struct options, MEMBER), .size = sizeof((struct options *)0)->MEMBER    \
    }

// The count of a list belongs to it: it has a row without a name.
static const struct field fields[] = {
    FIELD("listen", TEXTS, true, listen),
    FIELD(NULL, PLAIN, true, n_listen),
    FIELD("relay", TEXT, false, relay),
    FIELD("http", TEXT, false, http),
    FIELD("backend", TEXT, false, backend),
    FIELD("options of the backend", TEXT, false, backend_options),
    FIELD("isolation", PLAIN, false, threads),
    FIELD("sandbox", PLAIN, false, sandbox),
    FIELD("worker-user", TEXT, false, worker_user),
    FIELD("buffers", TEXT, false, buffers),
    FIELD("insecure", PLAIN, true, insecure),
    FIELD("tls-psk-file", TEXT, true, tls_psk_file),
    FIELD("tls-cert", TEXT, true, tls_cert),
    FIELD("tls-key", TEXT, true, tls_key),
    FIELD("tls-ca", TEXT, true, tls_ca),
    FIELD("tls-crl", TEXT, true, tls_crl),
    FIELD("announce", PLAIN, false, announce),
    FIELD("socket-group", TEXT, false, socket_group),
    FIELD("max-connections", PLAIN, true, max_connections),
    FIELD("max-contexts", PLAIN, true, max_contexts),
    FIELD("max-memories", PLAIN, true, max_memories),
    FIELD("max-memory", PLAIN, true, max_memory),
    FIELD("max-inflight", PLAIN, true, max_inflight),
    FIELD("max-inflight-bytes", PLAIN, true, max_inflight_bytes),
    FIELD("costly-percent", PLAIN, true, costly_percent),
    FIELD("max-payload", PLAIN, true, max_payload),
    FIELD("max-model-size", PLAIN, true, max_model_size),
    FIELD("max-models-size", PLAIN, true, max_models_size),
    FIELD("model-store", TEXT, false, model_store),
    FIELD("preload", TEXTS, true, preload),
    FIELD(NULL, PLAIN, true, n_preload),
    FIELD("max-loaded-size", PLAIN, true, max_loaded_size),
    FIELD("model-cache", PLAIN, true, model_cache),
    FIELD("upload-ttl", PLAIN, true, upload_ttl_s),
    FIELD("worker-idle", PLAIN, true, worker_idle_s),
    FIELD("heartbeat-ms", PLAIN, true, heartbeat_ms),
    FIELD("peer-timeout-ms", PLAIN, true, peer_timeout_ms),
    FIELD("job-timeout-ms", PLAIN, true, job_timeout_ms),
    FIELD("hold-timeout-ms", PLAIN, true, hold_timeout_ms),
    FIELD("slice-us", PLAIN, true, slice_us),
    FIELD("load-timeout-ms", PLAIN, true, load_timeout_ms),
    FIELD("drain-timeout-ms", PLAIN, true, drain_timeout_ms),
    FIELD("retire-timeout", PLAIN, true, retire_timeout_s),
    FIELD("trace-events", PLAIN, false, trace_events),
    FIELD("quota", QUOTAS, true, quotas),
    FIELD(NULL, PLAIN, true, n_quotas),
    FIELD("limit", PLAIN, true, limits),
    FIELD("limit", PLAIN, true, program_limits),
    FIELD("rights", RIGHTS, true, rights),
    FIELD("plugin-dir", TEXT, true, plugin_dir),
    FIELD("module-dir", TEXT, false, module_dir),
    FIELD("sysfs", TEXT, false, sysfs),
    FIELD("subuid", TEXT, false, subuid),
};

#define N_FIELDS (sizeof fields / sizeof *fields)

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

// Those that are not there are NULL.
static bool same_texts(char *const *a, char *const *b, size_t n)
{
    bool same = true;
    for (size_t i = 0; same && i < n; i++)
        same = same_text(a[i], b[i]);
    return same;
}

static bool same_quotas(const struct options *a, const struct options *b)
{
    bool same = a->n_quotas == b->n_quotas;
    for (uint32_t i = 0; same && i < a->n_quotas; i++) {
        const struct quota *p = &a->quotas[i], *q = &b->quotas[i];
        same = strcmp(p->user, q->user) == 0 && p->uid == q->uid && p->share == q->share &&
               memcmp(&p->limits, &q->limits, sizeof p->limits) == 0 &&
               memcmp(&p->programs, &q->programs, sizeof p->programs) == 0;
    }
    return same;
}

static bool same_rights(const struct rights *a, const struct rights *b)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = strcmp(a->rules[i].who, b->rules[i].who) == 0 &&
               a->rules[i].rights == b->rules[i].rights && a->groups[i] == b->groups[i] &&
               a->users[i] == b->users[i];
    return same;
}

static bool is_same(const struct field *f, const struct options *a, const struct options *b)
{
    const char *p = (const char *)a + f->offset, *q = (const char *)b + f->offset;
    switch (f->kind) {
    case FIELD_TEXT:
        return same_text(*(char *const *)p, *(char *const *)q);
    case FIELD_TEXTS:
        return same_texts((char *const *)(const void *)p, (char *const *)(const void *)q,
                          f->size / sizeof(char *));
    case FIELD_QUOTAS:
        return same_quotas(a, b);
    case FIELD_RIGHTS:
        return same_rights(&a->rights, &b->rights);
    case FIELD_PLAIN:
        break;
    }
    return memcmp(p, q, f->size) == 0;
}

static void swap_field(const struct field *f, struct options *a, struct options *b)
{
    char *p = (char *)a + f->offset, *q = (char *)b + f->offset;
    for (size_t i = 0; i < f->size; i++) {
        char kept = p[i];
        p[i] = q[i];
        q[i] = kept;
    }
}

static void add_name(struct options_names *n, const char *name)
{
    size_t length = strlen(n->text);
    if (name)
        snprintf(n->text + length, sizeof n->text - length, "%s%s", length > 0 ? ", " : "", name);
}

void options_update(struct options *o, struct options *fresh, struct options_names *ret_changed,
                    struct options_names *ret_kept)
{
    *ret_changed = *ret_kept = (struct options_names){0};
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (is_same(&fields[i], o, fresh))
            continue;
        add_name(fields[i].changes ? ret_changed : ret_kept, fields[i].name);
        if (fields[i].changes)
            swap_field(&fields[i], o, fresh);
    }
}
