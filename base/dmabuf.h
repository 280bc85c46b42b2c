// dma-bufs: memory that processes and devices share by file descriptor.
//
// Devices may bypass the CPU's caches: code that lets a CPU access a dma-buf does so between
// dmabuf_begin() and dmabuf_end(). Where caches are coherent that costs a system call and nothing
// else. (Linux, Documentation/driver-api/dma-buf.rst, "CPU Access to DMA Buffer Objects".)
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum { DMABUF_READ = 1, DMABUF_WRITE = 2 }; // access; both may be meant

/// Whether the fd is a dma-buf. Its size is fstat()'s, as that of other files. Kernels before 5.3
/// know neither: false there.
bool dmabuf_is(int fd);

/// What this or any other CPU has written is there for devices; what devices have written is there
/// for CPUs. May wait for devices that are at work on the buffer.
int dmabuf_to_device(int fd, struct error *e);
int dmabuf_from_device(int fd, struct error *e);

/// A CPU is going to access the buffer, or has done so. What CPUs wrote before, without saying so,
/// is not lost. May wait for devices that are at work on the buffer.
int dmabuf_begin(int fd, unsigned access, struct error *e);
int dmabuf_end(int fd, unsigned access, struct error *e);
