// Throughput over a USB cable: inputs that go up and outputs that come down through the library, a
// relay and the daemon, as a ratio to a bare pair of USB ends (bare_usb.h).
// tests/vm/guest/bench_usb.py runs it.
//
// bench_usb --board FOLDER: the board's end of the bare pair.
// bench_usb up|down URI SERIAL [SECONDS [ROUNDS]]: URI is a server on --backend
// null:BYTES:64,fill=0 (up) or null:64:BYTES,fill=0 (down), SERIAL the gadget of the bare pair.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rknnd.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"
#include "tests/bench/samples.h"
#include "tests/bench/usb/bare_usb.h"

#define MAX_ROUNDS 25

struct client {
    rknn_context context;
    rknn_input input;
    rknn_output output;
    rknn_run_extend last; // run
};

static uint32_t size_of(rknn_context context, rknn_query_cmd what)
{
    rknn_tensor_attr attr = {.index = 0};
    bench_check(rknn_query(context, what, &attr, sizeof attr));
    return attr.size;
}

static void open_client(struct client *c)
{
    static char model[] = "for the null backend any bytes are a model";
    bench_check(rknn_init(&c->context, model, sizeof model, 0, NULL));
    uint32_t in = size_of(c->context, RKNN_QUERY_INPUT_ATTR);
    uint32_t out = size_of(c->context, RKNN_QUERY_OUTPUT_ATTR);
    c->input = (rknn_input){
        .buf = calloc(1, in), .size = in, .type = RKNN_TENSOR_UINT8, .fmt = RKNN_TENSOR_UNDEFINED};
    c->output = (rknn_output){.is_prealloc = 1, .buf = calloc(1, out), .size = out};
    if (!c->input.buf || !c->output.buf)
        load_fail("no memory");
}

static void close_client(struct client *c)
{
    bench_check(rknn_destroy(c->context));
    free(c->input.buf);
    free(c->output.buf);
}

static void start_run(struct client *c)
{
    c->last = (rknn_run_extend){.non_block = 1};
    bench_check(rknn_inputs_set(c->context, 1, &c->input));
    bench_check(rknn_run(c->context, &c->last));
}

static void take_outputs(struct client *c, rknn_run_extend *run)
{
    bench_check(rknn_wait(c->context, run));
    bench_check(rknn_outputs_get(c->context, 1, &c->output, NULL));
}

// Bytes in a second. The next run is sent before the last one's outputs are taken, so that the
// cable, like that of the bare pair, always has something to carry.
static double client_rate(struct client *c, double seconds)
{
    start_run(c);
    uint64_t begin = clock_us(), now;
    double bytes = 0;
    do {
        rknn_run_extend before = c->last;
        start_run(c);
        take_outputs(c, &before);
        bytes += c->input.size + c->output.size;
        now = clock_us();
    } while ((double)(now - begin) < seconds * 1e6);
    take_outputs(c, &c->last);
    return bytes * 1e6 / (double)(now - begin);
}

static void measure(const char *uri, const char *serial, bool up, double seconds, unsigned rounds)
{
    double bare_rate[MAX_ROUNDS], rknnd_rate[MAX_ROUNDS], ratio[MAX_ROUNDS];
    struct client client;
    bench_check(rknnd_set_server(uri));
    open_client(&client);
    struct bare_usb *bare = bare_usb_open(serial);
    client_rate(&client, 0);
    for (unsigned i = 0; i < rounds; i++) {
        bare_rate[i] = bare_usb_rate(bare, up, seconds);
        rknnd_rate[i] = client_rate(&client, seconds);
        ratio[i] = rknnd_rate[i] / bare_rate[i];
    }
    bare_usb_close(bare);
    close_client(&client);
    printf("%-4s  bare %6.1f MB/s  rknnd %6.1f MB/s  ratio %.2f (%.2f to %.2f)\n",
           up ? "up" : "down", samples_median(bare_rate, rounds) / 1e6,
           samples_median(rknnd_rate, rounds) / 1e6, samples_median(ratio, rounds), ratio[0],
           ratio[rounds - 1]);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--board") == 0)
        bare_usb_serve(argv[2]);
    bool up = argc > 1 && strcmp(argv[1], "up") == 0;
    double seconds = argc > 4 ? atof(argv[4]) : 2;
    unsigned rounds = argc > 5 ? (unsigned)atoi(argv[5]) : 5;
    if (argc < 4 || (!up && strcmp(argv[1], "down") != 0) || !(seconds > 0) || rounds < 1 ||
        rounds > MAX_ROUNDS)
        load_fail("bench_usb --board FOLDER | up|down URI SERIAL [SECONDS [ROUNDS]]");
    measure(argv[2], argv[3], up, seconds, rounds);
    return 0;
}
