// The parts of the daemon that handlers may use. A handler includes the headers of those that it
// takes, and sees nothing of the others. The server owns them all; they outlive every connection.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct connection;

struct services {
    uv_loop_t *loop;
    const struct options *options;
    const struct runner_options *runner_options;
    const struct npu_device_info *device;
    struct accounts *accounts;
    struct users *users;
    bool serving;        // false: starts or drains, and takes no new work
    uint64_t started_ms; // uv_now()

    struct connections *connections;
    struct sessions *sessions;
    struct contexts *contexts;
    struct jobs *jobs;
    struct store *store;
    struct uploads *uploads;
    struct shelf *shelf;
    struct shelf_pins *pins;
    struct memories *memories;
    struct sram *sram;
    struct imports *imports;
    struct creations *creations;
    struct describes *describes;
    struct stats *stats;
    struct stored_list *stored_list;
    struct heap *heap;
    struct metrics *metrics;
    struct metrics_share *metrics_share;
    struct logbook *logbook;
    struct trace *trace;
    struct readings *readings;
    struct turns *turns;
};

/// What a connection has of them when it closes: ends its contexts, gives up its uploads and its
/// session.
void services_connection_closing(struct connection *c);
