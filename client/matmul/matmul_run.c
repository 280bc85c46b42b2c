// rknn_matmul_run: one INFER with four inputs (A, B, scales of B, the run's parameters) and one
// output (C).
//
//     A        with each run, unless the server works in the program's memory
//     B        when it has changed since the server last got it, unless in shared memory
//     scales   with B
//     C        in the answer, straight into the program's memory, unless shared
//
// Runs block, with the context's lock held.
#include "client/last_error.h"
#include "client/matmul/matmul.h"

static const char *const names = "ABC";

// Memories and scales were set for some shape; here they have to fit the current one. A single
// scale fits every shape.
static int check_memory(const struct matmul *m, struct error *e)
{
    const struct matmul_shape *s = &m->shapes[m->run.shape];
    for (uint32_t i = 0; i < 3; i++) {
        const struct matmul_matrix *x = &m->matrices[i];
        const struct mem *mem = m->memory[i].mem;
        if (!mem)
            return error_set(e, i == 2 ? STATUS_OUTPUT_INVALID : STATUS_INPUT_INVALID,
                             "matrix %c has no memory: rknn_matmul_set_io_mem() comes first",
                             names[i]);
        if (mem->program.size < x->size)
            return error_set(e, i == 2 ? STATUS_OUTPUT_INVALID : STATUS_INPUT_INVALID,
                             "matrix %c of M %u, K %u, N %u takes %u bytes, its memory has %u",
                             names[i], s->m, s->k, s->n, x->size, mem->program.size);
    }
    uint64_t n_scales = m->scales.size / MATMUL_SCALE_SIZE;
    if (n_scales == 1 || n_scales == matmul_n_scales(&m->kind, s))
        return 0;
    return error_set(e, STATUS_PARAM_INVALID,
                     "B has %llu scales, with K %u and N %u it takes %llu: call "
                     "rknn_matmul_set_quant_params() for this shape",
                     (unsigned long long)n_scales, s->k, s->n,
                     (unsigned long long)matmul_n_scales(&m->kind, s));
}

static int check_payload(const struct context *c, uint64_t total, struct error *e)
{
    uint64_t max = c->connection->peer.limits.payload_size;
    return total <= max ? 0
                        : error_set(e, STATUS_INPUT_INVALID,
                                    "matrices of %llu bytes, the server takes %llu at once",
                                    (unsigned long long)total, (unsigned long long)max);
}

// request.payload: C goes straight into the program's memory, if it is not there already.
static int take_c(struct request *request, uint64_t size, struct iovec *segments, struct error *e)
{
    const struct matmul *m = request->owner;
    const struct matmul_matrix *x = &m->matrices[MATMUL_C];
    uint32_t expected = m->memory[MATMUL_C].shared ? 0 : x->size;
    if (size != expected)
        return error_set(e, STATUS_FAIL, "%llu bytes of matrix C, not %u", (unsigned long long)size,
                         expected);
    segments[0] = (struct iovec){m->memory[MATMUL_C].data, expected};
    return expected > 0;
}

// Sends a run and waits for it. Inputs of size 0 mean: shared memory (pass_through false), or what
// the server has kept from before (B and its scales).
static int send_run(struct context *c, bool with_b, struct error *e)
{
    struct matmul *m = c->matmul;
    uint8_t run[MATMUL_RUN_SIZE];
    matmul_run_encode(&m->run, run);
    const bool in_memory[MATMUL_INPUTS] = {m->memory[MATMUL_A].shared, m->memory[MATMUL_B].shared};
    const struct iovec data[MATMUL_INPUTS] = {
        [MATMUL_A] = {m->memory[MATMUL_A].data,
                      in_memory[MATMUL_A] ? 0 : m->matrices[MATMUL_A].size},
        [MATMUL_B] = {m->memory[MATMUL_B].data,
                      with_b && !in_memory[MATMUL_B] ? m->matrices[MATMUL_B].size : 0},
        [MATMUL_SCALES] = {(void *)m->scales.data, with_b ? m->scales.size : 0},
        [MATMUL_RUN] = {run, sizeof run},
    };
    rknnd_Infer message = {.context = c->info.context,
                           .core_mask = c->core_mask,
                           .timeout_ms = c->timeout_ms,
                           .admit = c->admit,
                           .collect_perf = c->flags & RKNN_FLAG_COLLECT_PERF_MASK,
                           .inputs_count = MATMUL_INPUTS,
                           .output_limit = m->matrices[MATMUL_C].size};
    struct iovec segments[MATMUL_INPUTS];
    uint64_t total = 0;
    int n = 0;
    for (int i = 0; i < MATMUL_INPUTS; i++) {
        message.inputs[i] =
            (rknnd_InferInput){.size = data[i].iov_len, .pass_through = !in_memory[i]};
        total += data[i].iov_len;
        if (data[i].iov_len > 0)
            segments[n++] = data[i];
    }
    rknnd_InferReply reply = {0};
    struct request request = {
        .type = MESSAGE_INFER, .reply = &reply, .payload = take_c, .owner = m};
    int r = check_payload(c, total, e);
    // What is sent is read here, so a dma-buf's caches come first.
    for (int i = MATMUL_A; i <= MATMUL_B && r == 0; i++)
        r = data[i].iov_len > 0 ? mem_before_copy(m->memory[i].mem, e) : 0;
    if (r == 0)
        r = connection_send(c->connection, &request, &message, segments, n, e);
    uint64_t sent_us = clock_us();
    if (r == 0)
        r = connection_wait(c->connection, &request, CLOCK_FOREVER, e);
    if (r == 0) {
        c->times = reply;
        c->times.attempts = reply.attempts ? reply.attempts : 1;
        c->total_us = request.done_us - sent_us;
    }
    if (r == 0 && !m->memory[MATMUL_C].shared)
        r = mem_to_device(m->memory[MATMUL_C].mem, e);
    return r;
}

// Runs without B if the server should have it. It answers STATUS_INPUT_INVALID if it has not,
// because the worker that kept it has died; then B is sent again.
static int matmul_run_run(struct context *c, struct error *e)
{
    struct matmul *m = c->matmul;
    int r = check_memory(m, e);
    if (r < 0)
        return r;
    const struct matmul_shape *s = &m->shapes[m->run.shape];
    bool held = m->held.version == m->run.b_version && m->held.k == s->k && m->held.n == s->n;
    r = send_run(c, !held, e);
    if (held && r == STATUS_INPUT_INVALID)
        r = send_run(c, true, e);
    m->held.version = r == 0 ? m->run.b_version : 0;
    m->held.k = s->k;
    m->held.n = s->n;
    return r;
}

RKNN_EXPORT int rknn_matmul_run(rknn_matmul_ctx ctx)
{
    struct error e;
    cleanup(context_leave_p) struct context *c = NULL;
    int r = matmul_enter(ctx, &c, &e);
    if (r == 0)
        r = matmul_run_run(c, &e);
    return last_error_keep("rknn_matmul_run", r, &e);
}
