// Stands in for a kernel with one NPU of the maker's driver, behind device_calls: each request is
// held against tables of its own, written from the descriptions of the interface and not from
// rknpu_abi.h, and jobs are worked off by the emulator. Memory is there twice, as behind caches.
//
// What is wrong with a request is counted and printed, and the request refused with EINVAL.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STANDIN_DRM  "/dev/dri/renderD129"
#define STANDIN_MISC "/dev/rknpu"

struct standin_settings {
    unsigned version;                 // 806: 0.8.6
    bool misc;                        // /dev/rknpu alone
    bool other_size;                  // MEM_CREATE has the structure of the other versions
    bool flag_means_low, starts_high; // of memory above and below 4 GB
    bool no_iommu;
    unsigned domain;      // of the IOMMU, of drivers that have several
    bool ignores_handles; // MEM_CREATE makes memory of its own for the handle of a dma-buf
    uint64_t lacks;       // bytes that each memory has too few
    bool map_fails, denies_nodes;
    // The request number fail_at (counted from 0, of all) fails with this errno, fail_times times.
    long fail_at;
    int fail_errno, fail_times;
    int submit_errno; // each SUBMIT fails with it; 0: it does not
};

struct standin_counts {
    long requests, wrong, submits, syncs;
    int open_files, objects, maps, imports;
    unsigned cores;  // of all jobs
    int kept;        // objects whose MEM_DESTROY was made to fail
    uint64_t sram;   // that was asked for
    uint64_t synced; // bytes of all syncs
};

void standin_begin(const struct standin_settings *settings);
struct standin_counts standin_end(void);
struct standin_counts standin_counts(void); // so far

/// From now on each job is looked through for these bytes of a program's file: how many other
/// memories had them at once is what standin_copies() says. n 0: no longer.
void standin_watch(int file, const void *bytes, size_t n);
unsigned standin_copies(void);
