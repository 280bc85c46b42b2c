// An input is looked at up to the last node that reads it, an output from the first that writes it:
// there, each of these nodes has the address in commands of its own, and nobody else has the
// memory. Behind that, and in front of it, the arena's bytes are others'.
#include "npu/open/direct/direct_port.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "npu/open/direct/direct_extent.h"
#include "npu/open/direct/direct_pixels.h"

struct search {
    struct npu_model *m;
    const struct rknn_program_task **sorted; // by where they begin
    bool *marked;        // of each task: it has an address of the port that is looked at
    uint64_t begin, end; // of that port in the arena
    uint32_t tensor;
};

static int compare_first(const void *a, const void *b)
{
    uint64_t x = (*(const struct rknn_program_task *const *)a)->first;
    uint64_t y = (*(const struct rknn_program_task *const *)b)->first;
    return (x > y) - (x < y);
}

// Once for all ports of a model: files have thousands of tasks, and tens of thousands of addresses.
static int search_init(struct search *s, struct npu_model *m, struct error *e)
{
    const struct rknn_program *p = &m->program;
    *s = (struct search){.m = m,
                         .sorted = calloc((size_t)p->n_tasks + 1, sizeof *s->sorted),
                         .marked = calloc((size_t)p->n_tasks + 1, sizeof *s->marked)};
    if (!s->sorted || !s->marked)
        return error_no_memory(e, "a model's tasks", p->n_tasks * sizeof *s->sorted);
    for (uint32_t i = 0; i < p->n_tasks; i++)
        s->sorted[i] = &p->tasks[i];
    qsort(s->sorted, p->n_tasks, sizeof(void *), compare_first);
    return 0;
}

static void search_done(struct search *s)
{
    free(s->sorted);
    free(s->marked);
}

// Where the tasks with this command stand in s->sorted: from the result on, those that begin where
// it does, as schedules share commands. n_tasks: it is none's.
static uint32_t tasks_with(const struct search *s, uint64_t command)
{
    uint32_t low = 0, high = s->m->program.n_tasks, n = high; // to the first one behind the command
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->sorted[middle]->first <= command)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low || command >= s->sorted[low - 1]->first + s->sorted[low - 1]->n_commands)
        return n;
    while (low > 1 && s->sorted[low - 2]->first == s->sorted[low - 1]->first)
        low--;
    return low - 1;
}

// The node whose task has the command.
static uint32_t node_of(const struct search *s, const struct rknn_patch *patch)
{
    uint32_t at = tasks_with(s, patch->command);
    return at < s->m->program.n_tasks ? s->sorted[at]->node : UINT32_MAX;
}

static const char *why(struct search *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static const char *why(struct search *s, const char *format, ...)
{
    char text[256];
    va_list a;
    va_start(a, format);
    vsnprintf(text, sizeof text, format, a);
    va_end(a);
    const char *kept = pool_text(&s->m->pool, (struct bytes){(uint8_t *)text, strlen(text)});
    return kept ? kept : "there is no memory for the reason";
}

// ---- the port's own addresses ----

static void mark_tasks(struct search *s, uint64_t command)
{
    const struct rknn_program *p = &s->m->program;
    uint32_t first = tasks_with(s, command);
    for (uint32_t i = first; i < p->n_tasks && s->sorted[i]->first == s->sorted[first]->first; i++)
        s->marked[s->sorted[i] - p->tasks] = true;
}

// The port's commands, for whoever moves it, and the tasks that have them.
static int take_patches(struct search *s, struct open_port *port, struct error *e)
{
    const struct rknn_program *p = &s->m->program;
    uint64_t n = 0;
    for (uint64_t i = 0; i < p->n_patches; i++)
        n += p->patches[i].tensor == s->tensor;
    port->patches = pool_alloc(&s->m->pool, n + 1, sizeof *port->patches);
    if (!port->patches)
        return error_no_memory(e, "a tensor's addresses", n * sizeof *port->patches);
    memset(s->marked, 0, p->n_tasks * sizeof *s->marked);
    for (uint64_t i = 0; i < p->n_patches; i++) {
        const struct rknn_patch *patch = &p->patches[i];
        if (patch->tensor != s->tensor)
            continue;
        port->patches[port->n_patches++] =
            (struct open_port_patch){patch->command, patch->offset - s->begin};
        mark_tasks(s, patch->command);
    }
    return 0;
}

// Whether the node's tasks of a schedule have an address of the port.
static bool takes_address(const struct search *s, const struct rknn_schedule *schedule,
                          uint32_t node)
{
    for (uint32_t core = 0; core < schedule->n_cores; core++) {
        const struct rknn_range *r = &schedule->tasks[(size_t)node * schedule->n_cores + core];
        for (uint32_t i = r->first; i < r->first + r->n; i++)
            if (s->marked[i])
                return true;
    }
    return schedule->n_cores == 0;
}

// Unused operands are -1.
static bool lists(const int32_t *tensors, uint32_t n, uint32_t tensor)
{
    for (uint32_t i = 0; i < n; i++)
        if (tensors[i] >= 0 && (uint32_t)tensors[i] == tensor)
            return true;
    return false;
}

// NULL: the node is the NPU's, and takes the port's address wherever it runs.
static const char *judge_node(struct search *s, uint32_t node)
{
    const struct npu_model *m = s->m;
    const struct rknn_node *n = &m->file.nodes[node];
    bool takes = true;
    if (m->steps[node] == OPEN_CPU)
        return why(s, "the CPU computes node %s (%s)", n->name, n->op);
    if (m->steps[node] == OPEN_NOTHING)
        return why(s, "node %s (%s) is another view of it", n->name, n->op);
    for (unsigned i = 0; i < RKNN_MAX_CORES; i++)
        takes = takes && takes_address(s, &m->program.one[i], node);
    for (unsigned i = 0; i < RKNN_MAX_CORES - 1; i++)
        takes = takes && takes_address(s, &m->program.several[i], node);
    return takes ? NULL
                 : why(s, "the file does not say where node %s (%s) takes its address", n->name,
                       n->op);
}

// ---- others ----

// Bytes that are the port's while it is there.
static bool is_inside(const struct search *s, uint64_t offset)
{
    return offset >= s->begin && offset < s->end;
}

// Whoever has an address in the memory of the port that is not the port's own.
static const char *shared_with(struct search *s, const struct rknn_patch *patch)
{
    if (patch->tensor == RKNN_NO_TENSOR)
        return why(s, "the file does not say whose addresses its commands have");
    return why(s, "tensor %s has the same memory meanwhile",
               s->m->file.tensors[patch->tensor].name);
}

// Addresses of other tensors in the port's memory are those of nodes behind its last one, an
// input's
// (`until`), or in front of its first, an output's. That one node itself may have it as its own
// output, or input.
static const char *judge_others(struct search *s, bool input, uint32_t border)
{
    const struct rknn_program *p = &s->m->program;
    for (uint64_t i = 0; i < p->n_patches; i++) {
        const struct rknn_patch *patch = &p->patches[i];
        if (patch->part != RKNN_PART_ARENA || patch->tensor == s->tensor ||
            !is_inside(s, patch->offset))
            continue;
        uint32_t node = node_of(s, patch);
        if (node >= s->m->file.n_nodes || patch->tensor == RKNN_NO_TENSOR)
            return shared_with(s, patch);
        const struct rknn_node *n = &s->m->file.nodes[node];
        bool own = input ? lists(n->outputs, n->n_outputs, patch->tensor)
                         : lists(n->inputs, n->n_inputs, patch->tensor);
        if (input ? node < border : node > border)
            return shared_with(s, patch);
        if (node == border && !own)
            return shared_with(s, patch);
    }
    return NULL;
}

// What an output's first node reads without naming it would have been put there before: a part of
// the output that is computed in its place.
static const char *judge_parts(struct search *s, uint32_t node)
{
    const struct npu_model *m = s->m;
    const struct rknn_node *n = &m->file.nodes[node];
    for (uint32_t i = 0; i < n->n_inputs; i++) {
        uint32_t tensor = (uint32_t)n->inputs[i];
        bool named = n->inputs[i] < 0 || tensor == s->tensor ||
                     m->program.places[tensor].part != RKNN_PART_ARENA ||
                     !is_inside(s, m->program.places[tensor].offset);
        for (uint64_t k = 0; k < m->program.n_patches && !named; k++)
            named = m->program.patches[k].tensor == tensor &&
                    node_of(s, &m->program.patches[k]) == node;
        if (!named)
            return why(s, "tensor %s is a part of it", m->file.tensors[tensor].name);
    }
    return NULL;
}

// ---- a port ----

// In the order of how much a reason helps who reads it. Ends of the graph, which nobody computes,
// are no matter.
static const char *judge_port(struct search *s, const struct open_port *port, bool input)
{
    const struct npu_model *m = s->m;
    uint32_t border = UINT32_MAX;
    const char *found = NULL;
    for (uint32_t i = 0; i < m->file.n_nodes && !found; i++) {
        const struct rknn_node *n = &m->file.nodes[i];
        bool reads = lists(n->inputs, n->n_inputs, s->tensor);
        bool writes = lists(n->outputs, n->n_outputs, s->tensor);
        if ((!reads && !writes) || (m->steps[i] == OPEN_NOTHING && rknn_node_is_end(n)))
            continue;
        found = judge_node(s, i);
        border = input || border == UINT32_MAX ? i : border;
    }
    if (!found && border == UINT32_MAX)
        found = "no node has it";
    for (uint64_t i = 0; i < port->n_patches && !found; i++)
        if (port->patches[i].offset >= port->layout.size)
            found = "the NPU has more of it than its elements";
    if (!found)
        found = judge_others(s, input, border);
    if (!found && !input)
        found = judge_parts(s, border);
    return found || input ? found : direct_extent_judge(m, port, s->marked);
}

// In the arena a port lies where the file has put it: its memory is what others are compared with.
static int find_port(struct search *s, struct open_port *port, bool input, struct error *e)
{
    s->tensor = port->tensor;
    port->batch = s->m->file.batch;
    s->begin = open_port_offset(s->m, port);
    s->end = s->begin + port->layout.size;
    int r = take_patches(s, port, e);
    if (r == 0)
        port->why = judge_port(s, port, input);
    return r == 0 && input && !port->why ? direct_pixels_find(s->m, port, s->marked, e) : r;
}

int direct_ports_find(struct npu_model *m, struct error *e)
{
    struct search s;
    int r = search_init(&s, m, e);
    for (uint32_t i = 0; i < m->info.n_inputs && r == 0; i++)
        r = find_port(&s, &m->inputs[i], true, e);
    for (uint32_t i = 0; i < m->info.n_outputs && r == 0; i++)
        r = find_port(&s, &m->outputs[i], false, e);
    search_done(&s);
    return r;
}
