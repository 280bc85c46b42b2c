// The grammar: what a client may say, mostly about things that are there, often about things that
// are not any more, or are another client's.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "tests/stateful/world.h"

static unsigned bound_bit(uint64_t session, uint64_t handle)
{
    return (unsigned)((session * 0x9e3779b97f4a7c15u ^ handle * 0xc2b2ae3d27d4eb4fu) >> 40) %
           BOUND_BITS;
}

bool is_bound(uint64_t session, uint64_t handle)
{
    unsigned i = bound_bit(session, handle);
    return world.bound[i / 8] >> i % 8 & 1;
}

static void note_bound(uint64_t session, uint64_t handle)
{
    unsigned i = bound_bit(session, handle);
    world.bound[i / 8] |= (uint8_t)(1u << i % 8);
}

// ---- frames -------------------------------------------------------------------------------------

static struct frame_out *make_frame(uint16_t type, uint32_t id, const void *message,
                                    const void *payload, size_t size)
{
    struct iovec segment = {NULL, size};
    uint8_t *copy = NULL;
    if (size > 0) {
        copy = malloc(size);
        if (payload)
            memcpy(copy, payload, size);
        else
            memset(copy, 0, size);
        segment.iov_base = copy;
    }
    return message_frame(type, 0, id, message_row(type)->request, message, &segment, size > 0, free,
                         copy);
}

// What is never answered.
static void say(struct client *c, uint16_t type, const void *message, size_t size)
{
    client_push(c, make_frame(type, 0, message, NULL, size));
}

// A byte of the message is another one: whatever that means, the connection may end for it.
static bool spoil(struct client *c, struct frame_out *f, uint16_t type)
{
    bool harmless = type != MESSAGE_CONTEXT_BIND && type != MESSAGE_CONTEXT_INTERNAL &&
                    type != MESSAGE_HELLO && type != MESSAGE_CLIENT_KILL && // not another's session
                    type != MESSAGE_LOG_LEVEL;
    if (!harmless || f->head_size <= FRAME_HEADER_SIZE || !chance(4))
        return false;
    f->head[FRAME_HEADER_SIZE + below((uint32_t)(f->head_size - FRAME_HEADER_SIZE))] ^=
        (uint8_t)(1u << below(8));
    c->may_end = c->leaving = true;
    return true;
}

static struct request *ask(struct client *c, uint16_t type, const void *message,
                           const void *payload, size_t size, const struct context *x)
{
    struct request *r = c->requests;
    while (r < c->requests + N_REQUESTS && r->type)
        r++;
    if (r == c->requests + N_REQUESTS)
        abort(); // client_act() has looked
    *r = (struct request){.id = ++c->id, .type = type};
    if (x)
        r->context = *x;
    struct frame_out *f = make_frame(type, r->id, message, payload, size);
    r->spoilt = spoil(c, f, type);
    client_push(c, f);
    return r;
}

struct request *client_ask(struct client *c, uint16_t type, const void *message,
                           const void *payload, size_t size, struct file *f)
{
    return ask(c, type, message, payload, size, &(struct context){0, f});
}

void client_hello(struct client *c, const struct client *same)
{
    rknnd_Hello m = {.version_min = 1,
                     .version_max = 1,
                     .features = 1,
                     .software = "stateful",
                     .program = "stateful"};
    if (same) {
        c->asked = m.session = same->session;
        c->may_end = same->may_end;
        m.session_secret.size = HELLO_SECRET_SIZE;
        memcpy(m.session_secret.bytes, same->secret, HELLO_SECRET_SIZE);
        if (chance(100)) {
            m.session_secret.bytes[0] ^= 1;
            c->may_end = true;
        }
    }
    ask(c, MESSAGE_HELLO, &m, NULL, 0, NULL);
}

// ---- what there is ------------------------------------------------------------------------------

static struct client *any_client(void)
{
    return &world.clients[below(N_CLIENTS)];
}

static struct file *any_file(void)
{
    return &world.files[below(world.n_files)];
}

// NULL: it knows none.
static const struct context *any_context(struct client *c)
{
    uint32_t which = below(100);
    if (c->n_contexts && which < 80)
        return &c->contexts[below(c->n_contexts)];
    if (c->n_gone && which < 90)
        return &c->gone[below(c->n_gone)];
    struct client *other = any_client();
    return other->fd >= 0 && other->n_contexts ? &other->contexts[below(other->n_contexts)] : NULL;
}

// A request of one of two types; now and then any, an old one, or none.
static struct request *any_request(struct client *c, uint16_t one, uint16_t other)
{
    uint32_t first = below(N_REQUESTS);
    bool strict = chance(850);
    for (uint32_t i = 0; i < N_REQUESTS; i++) {
        struct request *r = &c->requests[(first + i) % N_REQUESTS];
        if (r->type && (!strict || r->type == one || r->type == other))
            return r;
    }
    return NULL;
}

static uint64_t any_memory(struct client *c)
{
    struct client *of = chance(900) ? c : any_client();
    return of->fd >= 0 && of->n_memories ? of->memories[below(of->n_memories)] : below(5);
}

static uint32_t one_of(const uint32_t *values, uint32_t n)
{
    return values[below(n)];
}
#define ONE_OF(...)                                                                                \
    one_of((uint32_t[]){__VA_ARGS__}, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t))

// ---- models and contexts ------------------------------------------------------------------------

void client_offer(struct client *c, struct file *f)
{
    rknnd_ModelOffer m = {.size = f->size, .name = "m.rknn"};
    memcpy(m.sha256, f->sha256, sizeof m.sha256);
    if (chance(30))
        m.size += below(3) - 1u;
    ask(c, MESSAGE_MODEL_OFFER, &m, NULL, 0, NULL);
}

void client_chunk(struct client *c, struct file *f, size_t begin)
{
    rknnd_ModelChunk m = {.offset = begin};
    memcpy(m.sha256, f->sha256, sizeof m.sha256);
    ask(c, MESSAGE_MODEL_CHUNK, &m, f->data + begin, f->size - begin, NULL);
}

static void say_offer(struct client *c)
{
    client_offer(c, any_file());
}

static void say_chunk(struct client *c)
{
    struct file *f = any_file();
    client_chunk(c, f, ONE_OF(0, 0, 0, 1000));
}

void client_open(struct client *c, struct file *f)
{
    rknnd_ContextOpen m = {0};
    memcpy(m.sha256, f->sha256, sizeof m.sha256);
    ask(c, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &(struct context){0, f});
}

static void say_open(struct client *c)
{
    struct file *f = any_file();
    rknnd_ContextOpen m = {.flags = ONE_OF(0, 0, 0, 1, 8, 0x800)};
    memcpy(m.sha256, f->sha256, sizeof m.sha256);
    if (chance(20))
        strcpy(m.options, "nonsense = 1\n");
    ask(c, MESSAGE_CONTEXT_OPEN, &m, NULL, 0, &(struct context){0, f});
}

static void say_describe(struct client *c)
{
    rknnd_ModelDescribe m = {0};
    memcpy(m.sha256, any_file()->sha256, sizeof m.sha256);
    ask(c, MESSAGE_MODEL_DESCRIBE, &m, NULL, 0, NULL);
}

static void say_dup(struct client *c)
{
    const struct context *x = any_context(c);
    if (x)
        ask(c, MESSAGE_CONTEXT_DUP, &(rknnd_ContextDup){x->handle}, NULL, 0,
            &(struct context){0, x->file});
}

static void say_close(struct client *c)
{
    const struct context *x = any_context(c);
    if (!x)
        return;
    struct context gone = *x;
    ask(c, MESSAGE_CONTEXT_CLOSE, &(rknnd_ContextClose){gone.handle}, NULL, 0, NULL);
    for (unsigned i = 0; i < c->n_contexts; i++)
        if (c->contexts[i].handle == gone.handle) {
            c->contexts[i] = c->contexts[--c->n_contexts];
            c->gone[c->n_gone < N_CONTEXTS ? c->n_gone++ : below(N_CONTEXTS)] = gone;
            return;
        }
}

// ---- runs ---------------------------------------------------------------------------------------

// Fills a run; *ret_size: of its payload. False: nothing is known of the model's input. `plain`:
// its result is known.
static bool make_run(const struct context *x, rknnd_Infer *m, size_t *ret_size, bool *ret_plain)
{
    const struct file *f = x->file;
    if (!f->input)
        return false;
    size_t size = f->input_size - (chance(30) && f->input_size > 1);
    bool custom = f->node_size && chance(900);
    *m = (rknnd_Infer){
        .context = x->handle, .inputs_count = 1, .inputs = {{.size = size, .converted = true}}};
    if (chance(100))
        m->core_mask = ONE_OF(1, 2, 4, 3, 7, 9);
    if (chance(100))
        m->timeout_ms = ONE_OF(1, 5, 50, 0x7fffffff, 0x80000000, 0xffffffff);
    m->admit = chance(100);
    if (chance(50)) {
        m->outputs_back_count = 1;
        m->outputs_back[0] = below(3);
    }
    if (chance(10))
        m->shape_set = below(3);
    if (chance(10))
        m->batch_cores = below(5);
    if (custom) {
        m->custom_nodes.size = 1;
        m->custom_nodes.bytes[0] = 1;
    }
    *ret_size = size;
    *ret_plain = !custom && m->outputs_back_count == 0 && m->shape_set == 0;
    return true;
}

void client_infer(struct client *c, const struct context *x, bool plainly)
{
    static rknnd_Infer m;
    size_t size;
    bool plain;
    if (!make_run(x, &m, &size, &plain))
        return;
    if (plainly) {
        m = (rknnd_Infer){.context = x->handle,
                          .inputs_count = 1,
                          .inputs = {{.size = size = x->file->input_size, .converted = true}}};
        plain = x->file->node_size == 0;
    } else {
        m.collect_perf = chance(100);
        m.no_outputs = chance(50);
        if (chance(20)) {
            m.writes_count = 1;
            m.writes[0] =
                (rknnd_InferWrite){.input = below(2), .offset = below(100), .size = below(100)};
            plain = false;
        }
        if (chance(20)) {
            m.output_limit = below(64) + 1;
            plain = false;
        }
        plain = plain && !m.no_outputs;
    }
    struct context known = *x;
    size_t extra = m.writes_count ? (size_t)m.writes[0].size : 0;
    uint8_t *data = calloc(1, size + extra);
    memcpy(data + extra, known.file->input, size);
    ask(c, MESSAGE_INFER, &m, data, size + extra, &known)->plain = plain;
    free(data);
}

static void say_infer(struct client *c)
{
    const struct context *x = any_context(c);
    if (x)
        client_infer(c, x, false);
}

static void say_dump(struct client *c)
{
    static rknnd_Dump m;
    const struct context *x = any_context(c);
    static const char *const only[] = {"", "", "*1*", "none", "[", "*"};
    size_t size;
    bool plain;
    memset(&m, 0, sizeof m);
    if (!x || !make_run(x, &m.run, &size, &plain))
        return;
    m.has_run = !chance(10);
    m.replace = chance(400);
    strcpy(m.only, only[below(6)]);
    struct context known = *x;
    ask(c, MESSAGE_DUMP, &m, known.file->input, size, &known);
}

static void say_dump_next(struct client *c)
{
    struct request *r = any_request(c, MESSAGE_DUMP, MESSAGE_DUMP);
    uint64_t size = r && r->has_part ? r->part : 0;
    if (chance(50))
        size = ONE_OF(0, 1, (uint32_t)size + 1);
    if (r) {
        r->guessed |= !r->has_part;
        r->has_part = false;
    }
    say(c, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){r ? r->id : c->old_id}, size);
}

static void say_custom_done(struct client *c)
{
    static rknnd_CustomDone m;
    struct request *r = any_request(c, MESSAGE_INFER, MESSAGE_DUMP);
    for (unsigned i = 0; i < N_REQUESTS && chance(800); i++)
        if (c->requests[i].type && c->requests[i].has_call)
            r = &c->requests[i];
    size_t size = r && r->context.file ? r->context.file->node_size : 0;
    m = (rknnd_CustomDone){.request = r ? r->id : c->old_id,
                           .number = r && r->has_call ? r->call : below(4)};
    uint32_t which = below(100);
    if (which < 3) {
        size += 4;
    } else if (which < 6) {
        size = 0;
        m.status = -5;
        strcpy(m.text, "the operator fails");
    } else if (which < 9) {
        m.number++;
    }
    if (r) {
        bool right = r->has_call && m.number == r->call;
        r->guessed |= !right;
        r->has_call = right ? false : r->has_call;
    }
    say(c, MESSAGE_CUSTOM_DONE, &m, size);
}

static void say_cancel(struct client *c)
{
    struct request *r = chance(500) ? any_request(c, MESSAGE_DUMP, MESSAGE_INFER)
                                    : any_request(c, MESSAGE_CONTEXT_OPEN, MESSAGE_LOG);
    say(c, MESSAGE_CANCEL, &(rknnd_Cancel){r ? r->id : c->old_id}, 0);
}

static void say_profile(struct client *c)
{
    const struct context *x = any_context(c);
    if (x && chance(500))
        ask(c, MESSAGE_PROFILE, &(rknnd_Profile){x->handle}, NULL, 0, NULL);
    else if (x)
        ask(c, MESSAGE_CUSTOM_LIST, &(rknnd_CustomList){x->handle}, NULL, 0, NULL);
}

// ---- memory -------------------------------------------------------------------------------------

static void say_create(struct client *c)
{
    ask(c, MESSAGE_MEMORY_CREATE,
        &(rknnd_MemoryCreate){ONE_OF(4096, 65536, 1 << 20, 1), ONE_OF(0, 0, 0, 1, 2, 8)}, NULL, 0,
        NULL);
}

// Something of which the server cannot know what it is.
static int any_fd(void)
{
    int pair[2];
    struct error e;
    switch (below(5)) {
    case 0:
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    case 1:
        if (pipe2(pair, O_CLOEXEC) < 0)
            abort();
        close(pair[1]);
        return pair[0];
    case 2:
        return memfd_create("not sealed", MFD_CLOEXEC);
    default:
        return fd_memory_sealed("sealed", ONE_OF(4096, 65536, 100), 0, &(void *){NULL}, &e);
    }
}

// With its own descriptors, too many, too few; or with a message that takes none.
static void say_with_fds(struct client *c)
{
    bool right = chance(700);
    uint16_t type = right ? MESSAGE_MEMORY_IMPORT : MESSAGE_PING;
    struct request *r = c->requests;
    while (r->type)
        r++;
    *r = (struct request){.id = ++c->id, .type = type};
    struct frame_out *f = make_frame(type, r->id, &(rknnd_Ping){0}, NULL, 0);
    f->n_fds = chance(900) ? 1 : (int)below(3);
    for (int i = 0; i < f->n_fds; i++)
        f->fds[i] = any_fd();
    client_push(c, f);
}

static void say_free(struct client *c)
{
    uint64_t memory = any_memory(c);
    ask(c, MESSAGE_MEMORY_FREE, &(rknnd_MemoryFree){memory}, NULL, 0, NULL);
    for (unsigned i = 0; i < c->n_memories; i++)
        if (c->memories[i] == memory)
            c->memories[i] = c->memories[--c->n_memories];
}

static void say_bind(struct client *c)
{
    const struct context *x = any_context(c);
    if (!x)
        return;
    note_bound(c->session, x->handle);
    if (chance(300)) {
        ask(c, MESSAGE_CONTEXT_INTERNAL,
            &(rknnd_ContextInternal){
                .context = x->handle, .memory = any_memory(c), .offset = ONE_OF(0, 0, 64, 1)},
            NULL, 0, NULL);
        return;
    }
    rknnd_ContextBind m = {.context = x->handle,
                           .output = chance(500),
                           .index = below(2),
                           .memory = chance(800) ? any_memory(c) : 0,
                           .offset = ONE_OF(0, 0, 0, 64, 5000),
                           .type = ONE_OF(0, 1, 2, 3),
                           .layout = ONE_OF(0, 1, 3),
                           .pass_through = chance(100)};
    ask(c, MESSAGE_CONTEXT_BIND, &m, NULL, 0, NULL);
}

// ---- looking, and the end -----------------------------------------------------------------------

static void say_look(struct client *c)
{
    static const uint16_t plain[] = {MESSAGE_PING,   MESSAGE_SERVER_STATUS, MESSAGE_STATS,
                                     MESSAGE_CLOCKS, MESSAGE_SENSORS,       MESSAGE_LIMITS,
                                     MESSAGE_METRICS};
    uint32_t which = below(10);
    if (which == 0)
        ask(c, MESSAGE_LOG, &(rknnd_Log){.last = 5, .wait = chance(300)}, NULL, 0, NULL);
    else if (which == 1)
        ask(c, MESSAGE_TRACE, &(rknnd_Trace){1}, NULL, 0, NULL);
    else if (which == 2)
        ask(c, MESSAGE_LOG_LEVEL,
            &(rknnd_LogLevel){ONE_OF(world.log_level, world.log_level, 6, 0xffffffff)}, NULL, 0,
            NULL);
    else
        ask(c, plain[which - 3], &(rknnd_Ping){0}, NULL, 0, NULL);
}

void client_ask_status(struct client *c)
{
    ask(c, MESSAGE_SERVER_STATUS, &(rknnd_Empty){0}, NULL, 0, NULL);
}

static void say_kill(struct client *c)
{
    struct client *other = any_client();
    if (other->fd < 0 || !other->session || other->session == c->session || !chance(100))
        return;
    for (struct client *o = world.clients; o < world.clients + N_CLIENTS; o++)
        o->may_end |= o->session == other->session || o->asked == other->session;
    ask(c, MESSAGE_CLIENT_KILL, &(rknnd_ClientKill){other->session}, NULL, 0, NULL);
}

static void say_goodbye(struct client *c)
{
    if (!chance(50))
        return;
    c->leaving = c->may_end = true;
    say(c, MESSAGE_GOODBYE, &(rknnd_Goodbye){0}, 0);
}

// A header that is not right: an id twice, a type that there is not, a payload where there is none.
static void say_nonsense(struct client *c)
{
    static rknnd_Ping m;
    if (!chance(50))
        return;
    c->may_end = c->leaving = true;
    struct request *r = any_request(c, MESSAGE_INFER, MESSAGE_DUMP);
    struct frame_out *f =
        make_frame(MESSAGE_PING, r ? r->id : 7, &m, NULL, below(2) ? 0 : below(9000));
    uint32_t which = below(4);
    if (which < 3)
        f->head[ONE_OF(4, 6, 7)] ^= (uint8_t)(1u << below(8));
    client_push(c, f);
}

static void say_hello_again(struct client *c)
{
    if (chance(100))
        ask(c, MESSAGE_HELLO, &(rknnd_Hello){.version_min = 1, .version_max = 1}, NULL, 0, NULL);
}

// ---- choosing -----------------------------------------------------------------------------------

static const struct {
    void (*say)(struct client *c);
    unsigned weight;
} grammar[] = {
    {say_open, 6},        {say_offer, 2},         {say_chunk, 1},   {say_describe, 1},
    {say_dup, 4},         {say_close, 4},         {say_infer, 24},  {say_dump, 6},
    {say_dump_next, 20},  {say_custom_done, 12},  {say_cancel, 5},  {say_profile, 4},
    {say_create, 3},      {say_with_fds, 3},      {say_free, 5},    {say_bind, 5},
    {say_look, 5},        {say_kill, 1},          {say_goodbye, 1}, {say_nonsense, 1},
    {say_hello_again, 1}, {client_say_stored, 6},
};
#define N_GRAMMAR (sizeof grammar / sizeof *grammar)

static void say_any(struct client *c)
{
    unsigned all = 0;
    for (unsigned i = 0; i < N_GRAMMAR; i++)
        all += grammar[i].weight;
    unsigned at = below(all), i = 0;
    for (; at >= grammar[i].weight; i++)
        at -= grammar[i].weight;
    grammar[i].say(c);
}

void client_act(struct client *c)
{
    if (c->leaving && chance(200)) {
        client_close(c);
    } else if (!c->session) {
        c->held_back = 0;
        client_flush(c);
    } else if (client_unanswered(c) < N_REQUESTS - 2 && c->out.bytes < 1u << 20) {
        say_any(c);
    } else { // first what others wait for
        void (*const first[])(struct client *) = {say_dump_next, say_custom_done, say_cancel};
        if (c->out.bytes < 2u << 20 && chance(100))
            first[below(3)](c);
    }
}

void client_conclude(struct client *c)
{
    c->held_back = 0;
    for (struct request *r = c->requests; r < c->requests + N_REQUESTS && c->fd >= 0; r++) {
        if (!r->type)
            continue;
        if (r->has_part) {
            r->has_part = false;
            say(c, MESSAGE_DUMP_NEXT, &(rknnd_DumpNext){r->id}, r->part);
        } else if (r->has_call) {
            r->has_call = false;
            say(c, MESSAGE_CUSTOM_DONE, &(rknnd_CustomDone){.request = r->id, .number = r->call},
                r->context.file->node_size);
        } else if (r->type == MESSAGE_LOG) {
            say(c, MESSAGE_CANCEL, &(rknnd_Cancel){r->id}, 0);
        }
    }
    c->held_back = 0;
    client_flush(c);
}
