// What a library's kernels take for a model's convolutions on arm64, for table_arm64.py, which
// counts instructions.
//
// count_library MODEL         prints the arithmetic bound (instructions.h) of all that XNNPACK does
//                             not do: convs, rest, products; how many convolutions it does, of how
//                             many; then, for each number on standard input, runs its convolutions
//                             as often
// count_library --no-dot MODEL  the same for a processor without dot products
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/sim/bench_graph.h"
#include "tests/bench/sim/instructions.h"
#include "tests/bench/sim/library_convs.h"

static void print_rest(const struct graph *g, const struct library_convs *l, bool dot)
{
    bool *elsewhere = calloc((size_t)g->n_nodes + 1, sizeof *elsewhere);
    unsigned n_convs = 0, n_elsewhere = 0;
    if (!elsewhere)
        abort();
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        elsewhere[i] = library_convs_has(l, i);
        n_elsewhere += elsewhere[i];
        n_convs += g->nodes[i].op == GRAPH_CONV;
    }
    struct instructions n = instructions_of(g, dot, elsewhere);
    printf("%.0f %.0f %.0f %u %u\n", n.convs, n.rest, n.products, n_elsewhere, n_convs);
    fflush(stdout);
    free(elsewhere);
}

static void run_rounds(struct library_convs *l)
{
    char line[32];
    while (fgets(line, sizeof line, stdin))
        for (long n = strtol(line, NULL, 10); n > 0; n--)
            library_convs_run(l);
}

int main(int argc, char **argv)
{
    bool dot = !(argc == 3 && strcmp(argv[1], "--no-dot") == 0);
    struct bench_graph m;
    if (argc != (dot ? 2 : 3)) {
        fprintf(stderr, "usage: count_library [--no-dot] MODEL\n");
        return 2;
    }
    bench_graph_load(&m, argv[argc - 1]);
    struct library_convs *l = library_convs_new(&m.graph);
    if (!l) {
        fprintf(stderr, "XNNPACK does not start\n");
        return 1;
    }
    print_rest(&m.graph, l, dot);
    run_rounds(l);
    library_convs_free(l);
    bench_graph_done(&m);
    return 0;
}
