// How programs share a USB cable: round trips of inferences while another program uploads a large
// model, as a ratio to the same without it. tests/vm/guest/bench_usb.py runs it.
//
// bench_usb_share URI [SECONDS [ROUNDS]]: URI is a server on --backend null:…,delay_us=…
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rknnd.h"
#include "tests/bench/crowd.h"
#include "tests/bench/daemon.h"
#include "tests/bench/load.h"
#include "tests/bench/samples.h"

#define N_OTHERS   7
#define MODEL_SIZE (200u << 20)
#define MAX_ROUNDS 25

// Of one round; microseconds.
struct latencies {
    double median, late; // late: one in twenty is later
};

struct setting {
    const char *name;
    unsigned n; // programs that infer
    bool upload;
    struct latencies rounds[MAX_ROUNDS];
};

static const char *uri, *model;
static _Atomic uint64_t *uploaded; // bytes of the upload, shared with it

static void note_progress(void *owner, uint64_t sent, uint64_t size)
{
    (void)owner;
    (void)size;
    atomic_store(uploaded, sent);
}

static void upload(void)
{
    rknn_context context;
    char *bytes = malloc(MODEL_SIZE);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!bytes)
        load_fail("no memory");
    memset(bytes, 'm', MODEL_SIZE);
    snprintf(bytes, MODEL_SIZE, "%d", (int)getpid()); // the server has none like it
    bench_check(rknnd_set_server(uri));
    rknnd_set_progress(note_progress, NULL);
    bench_check(rknn_init(&context, bytes, MODEL_SIZE, 0, NULL));
    pause();
}

static pid_t start_upload(void)
{
    fflush(stdout);
    atomic_store(uploaded, 0);
    pid_t pid = fork();
    if (pid < 0)
        load_fail("fork: %s", strerror(errno));
    if (pid == 0)
        upload();
    return pid;
}

static struct latencies measure(const struct setting *s, double seconds)
{
    struct crowd crowd;
    struct crowd_role roles[N_OTHERS];
    double median[N_OTHERS], late[N_OTHERS];
    for (unsigned i = 0; i < s->n; i++)
        roles[i] = (struct crowd_role){.model = model};
    pid_t uploader = s->upload ? start_upload() : 0;
    while (uploader && atomic_load(uploaded) == 0) // it hashes first
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    crowd_run(&crowd, uri, roles, s->n, seconds);
    if (uploader) {
        printf("%u of %u MB uploaded by then\n", (unsigned)(*uploaded >> 20), MODEL_SIZE >> 20);
        kill(uploader, SIGKILL);
        waitpid(uploader, NULL, 0);
    }
    for (unsigned i = 0; i < s->n; i++) {
        median[i] = crowd_latency_us(&crowd.results[i], 0.5);
        late[i] = crowd_latency_us(&crowd.results[i], 0.95);
    }
    crowd_done(&crowd);
    return (struct latencies){samples_median(median, s->n), samples_median(late, s->n)};
}

static struct latencies middle(const struct setting *s, unsigned rounds)
{
    double median[MAX_ROUNDS], late[MAX_ROUNDS];
    for (unsigned i = 0; i < rounds; i++) {
        median[i] = s->rounds[i].median;
        late[i] = s->rounds[i].late;
    }
    return (struct latencies){samples_median(median, rounds), samples_median(late, rounds)};
}

static void print(const struct setting *s, const struct setting *to, unsigned rounds)
{
    struct latencies m = middle(s, rounds), of = middle(to, rounds);
    printf("%-20s  median %7.2f ms, 95 %% within %7.2f ms", s->name, m.median / 1e3, m.late / 1e3);
    if (s != to)
        printf("; %.2f times and %.2f times as long as %s", m.median / of.median, m.late / of.late,
               to->name);
    printf("\n");
}

int main(int argc, char **argv)
{
    struct setting settings[] = {{.name = "one program", .n = 1},
                                 {.name = "7 programs", .n = N_OTHERS},
                                 {.name = "7 and an upload", .n = N_OTHERS, .upload = true}};
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : 3;
    if (argc < 2 || argc > 4 || !(seconds > 0) || rounds < 1 || rounds > MAX_ROUNDS)
        load_fail("bench_usb_share URI [SECONDS [ROUNDS]]");
    struct bench_daemon files; // for its model
    bench_daemon_init(&files, "");
    uri = argv[1];
    model = files.model;
    uploaded =
        mmap(NULL, sizeof *uploaded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (uploaded == MAP_FAILED)
        load_fail("no memory");
    for (unsigned i = 0; i < rounds; i++)
        for (unsigned j = 0; j < 3; j++)
            settings[j].rounds[i] = measure(&settings[j], seconds);
    for (unsigned j = 0; j < 3; j++)
        print(&settings[j], &settings[j == 2], rounds);
    bench_daemon_done(&files);
    return 0;
}
