// What the module's parts share, and what it says to the program that computes (npu_helper.c): a
// job is read from /dev/rknnd-npu, with files of the memory that it sees, and its end is written
// there.
#ifndef RKNND_NPU_MODULE_H
#define RKNND_NPU_MODULE_H

#include <linux/types.h>

#define NPU_HELPER_NODE "/dev/rknnd-npu"
#define NPU_CORES       3

enum npu_kind {
    NPU_RKNPU = 1,  // records of 40 bytes at an address of the NPU's, each core's
    NPU_ROCKET = 2, // tasks of 8 bytes behind the memory's files
};

struct npu_message {
    __u64 id;
    __u64 records; // address of the first
    __u32 kind, core_mask;
    __u32 first[NPU_CORES], n[NPU_CORES]; // [i]: of the i-th core of the mask
    __u32 n_files, n_tasks;
    // npu_file[n_files], npu_task[n_tasks]
};

struct npu_file {
    __u64 address, size;
    __s32 fd; // a dma-buf; the reader's to close
    __u32 zero;
};

struct npu_task {
    __u32 commands, words; // with the trailer
};

struct npu_answer {
    __u64 id;
    __s32 status; // 0 or -errno
    __u32 done;   // tasks
};

#ifdef __KERNEL__
#include <drm/drm_drv.h>
#include <drm/drm_mm.h>
#include <linux/completion.h>
#include <linux/dma-buf.h>
#include <linux/dma-fence.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>

// The memory of one open file, at addresses of its own.
struct npu_space {
    struct mutex lock;
    struct drm_mm mm;
    struct list_head memories;
    u64 next_id;
};

struct npu_memory {
    struct list_head link;
    struct drm_mm_node node;
    u64 id, size;
    u32 handle;
    struct dma_buf *file;
    const void *object; // of DRM, whose last handle ends the memory; NULL: none
    bool imported;      // a dma-buf of others, on a node of DRM
};

struct npu_job {
    struct kref refs;
    struct list_head link;
    struct npu_message message;
    struct npu_file *files; // fd: not yet
    struct dma_buf **memories;
    struct npu_task *tasks;
    struct completion ended;
    struct dma_fence *fence; // NULL: nobody waits for one
    void *helper;            // that works on it
    int status;
    u32 done;
};

int npu_space_init(struct npu_space *s, u64 first_address);
void npu_space_done(struct npu_space *s);
/// Takes over the file. At an address below 4 GB.
struct npu_memory *npu_space_add(struct npu_space *s, u32 handle, u64 size, struct dma_buf *file,
                                 const void *object);
struct npu_memory *npu_space_by_id(struct npu_space *s, u64 id);
struct npu_memory *npu_space_by_handle(struct npu_space *s, u32 handle);
void npu_space_remove(struct npu_space *s, struct npu_memory *m);

/// A job that sees the space's memory as it is now.
struct npu_job *npu_job_new(struct npu_space *s, u32 n_tasks);
void npu_job_queue(struct npu_job *job);
/// 0 when it has ended; else it is given up, and ends without anybody.
int npu_job_wait(struct npu_job *job, unsigned long ms);
void npu_job_put(struct npu_job *job);

/// Nodes of DRM: memory that is counted, and a device for one.
struct drm_gem_object *npu_gem_new(struct drm_device *dev, size_t size);
struct drm_device *npu_device_add(const struct drm_driver *driver, const char *name);
void npu_device_remove(struct drm_device *dev);
struct dma_buf *npu_gem_file(struct drm_gem_object *obj);

int npu_rknpu_init(void);
void npu_rknpu_exit(void);
int npu_rocket_init(void);
void npu_rocket_exit(void);
#endif
#endif
