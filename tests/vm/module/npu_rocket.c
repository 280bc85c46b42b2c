// The requests of mainline's driver for RK3588, on a node of accel: jobs end by themselves, and who
// waits for memory waits for its jobs.
#include <drm/drm_accel.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_gem_shmem_helper.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_utils.h>
#include <drm/drm_vma_manager.h>
#include <linux/dma-resv.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "npu_module.h"

struct of_bo {
    u32 size, handle;
    u64 address, offset;
};

struct of_jobs {
    u64 jobs;
    u32 n, size;
    u64 zero;
};

struct of_job {
    u64 tasks, in, out;
    u32 n_tasks, task_size, n_in, n_out;
};

struct of_wait {
    u32 handle, zero;
    s64 until;
};

#define MOST 65536

struct job_fence {
    struct dma_fence base;
    spinlock_t lock;
};

static const char *fence_name(struct dma_fence *f)
{
    return "rocket";
}

static const struct dma_fence_ops fence_ops = {.get_driver_name = fence_name,
                                               .get_timeline_name = fence_name};

static struct dma_fence *fence_new(void)
{
    struct job_fence *f = kzalloc(sizeof(*f), GFP_KERNEL);

    if (!f)
        return NULL;
    spin_lock_init(&f->lock);
    dma_fence_init(&f->base, &fence_ops, &f->lock, dma_fence_context_alloc(1), 1);
    return &f->base;
}

static int do_create(struct drm_device *dev, void *data, struct drm_file *f)
{
    struct of_bo *a = data;
    struct drm_gem_shmem_object *made;
    struct npu_memory *m;
    struct dma_buf *file;
    int r;

    if (!a->size || a->size > SZ_1G)
        return -EINVAL;
    made = drm_gem_shmem_create(dev, PAGE_ALIGN(a->size));
    if (IS_ERR(made))
        return PTR_ERR(made);
    r = drm_gem_handle_create(f, &made->base, &a->handle);
    if (!r)
        r = drm_gem_create_mmap_offset(&made->base);
    file = r ? ERR_PTR(r) : npu_gem_file(&made->base);
    m = IS_ERR(file) ? ERR_CAST(file)
                     : npu_space_add(f->driver_priv, a->handle, made->base.size, file, &made->base);
    if (!IS_ERR(m)) {
        a->address = m->node.start;
        a->offset = drm_vma_node_offset_addr(&made->base.vma_node);
    }
    drm_gem_object_put(&made->base);
    return PTR_ERR_OR_ZERO(m);
}

// Each object of the list waits for the fence.
static int add_fence(struct drm_file *f, u64 list, u32 n, struct dma_fence *fence)
{
    for (u32 i = 0; i < n; i++) {
        struct drm_gem_object *obj;
        u32 handle;
        int r;

        if (get_user(handle, (u32 __user *)list + i))
            return -EFAULT;
        obj = drm_gem_object_lookup(f, handle);
        if (!obj)
            return -ENOENT;
        r = dma_resv_lock_interruptible(obj->resv, NULL);
        if (!r) {
            r = dma_resv_reserve_fences(obj->resv, 1);
            if (!r)
                dma_resv_add_fence(obj->resv, fence, DMA_RESV_USAGE_WRITE);
            dma_resv_unlock(obj->resv);
        }
        drm_gem_object_put(obj);
        if (r)
            return r;
    }
    return 0;
}

static int submit_one(struct drm_file *f, const struct of_job *a)
{
    struct npu_job *job;
    int r;

    if (!a->n_tasks || a->n_tasks > MOST || a->task_size != sizeof(struct npu_task) ||
        a->n_in > MOST || a->n_out > MOST)
        return -EINVAL;
    job = npu_job_new(f->driver_priv, a->n_tasks);
    if (IS_ERR(job))
        return PTR_ERR(job);
    job->message.kind = NPU_ROCKET;
    job->message.core_mask = 1;
    job->fence = fence_new();
    r = job->fence ? 0 : -ENOMEM;
    if (!r && copy_from_user(job->tasks, (void __user *)a->tasks, a->n_tasks * sizeof(*job->tasks)))
        r = -EFAULT;
    for (u32 i = 0; !r && i < a->n_tasks; i++)
        r = job->tasks[i].words ? 0 : -EINVAL;
    if (!r)
        r = add_fence(f, a->out, a->n_out, job->fence);
    if (!r)
        npu_job_queue(job);
    else if (job->fence)
        dma_fence_signal(job->fence);
    npu_job_put(job);
    return r;
}

static int do_submit(struct drm_device *dev, void *data, struct drm_file *f)
{
    struct of_jobs *a = data;
    struct of_job job;
    int r = a->zero || a->size != sizeof(job) || !a->n || a->n > MOST ? -EINVAL : 0;

    for (u32 i = 0; !r && i < a->n; i++) {
        if (copy_from_user(&job, (struct of_job __user *)a->jobs + i, sizeof(job)))
            return -EFAULT;
        r = submit_one(f, &job);
    }
    return r;
}

static int do_prepare(struct drm_device *dev, void *data, struct drm_file *f)
{
    struct of_wait *a = data;
    struct drm_gem_object *obj = a->zero ? NULL : drm_gem_object_lookup(f, a->handle);
    long left;

    if (!obj)
        return a->zero ? -EINVAL : -ENOENT;
    left = dma_resv_wait_timeout(obj->resv, DMA_RESV_USAGE_WRITE, true,
                                 drm_timeout_abs_to_jiffies(a->until));
    drm_gem_object_put(obj);
    return left == 0 ? -ETIMEDOUT : left < 0 ? left : 0;
}

static int do_finish(struct drm_device *dev, void *data, struct drm_file *f)
{
    u32 *a = data;

    return a[1] || !npu_space_by_handle(f->driver_priv, a[0]) ? -EINVAL : 0;
}

static int space_open(struct drm_device *dev, struct drm_file *f)
{
    struct npu_space *s = kzalloc(sizeof(*s), GFP_KERNEL);

    if (!s)
        return -ENOMEM;
    f->driver_priv = s;
    return npu_space_init(s, 0);
}

static void space_close(struct drm_device *dev, struct drm_file *f)
{
    npu_space_done(f->driver_priv);
    kfree(f->driver_priv);
}

static const struct drm_ioctl_desc requests[] = {
    [0] = {.cmd = DRM_IOWR(DRM_COMMAND_BASE + 0, struct of_bo),
           .func = do_create,
           .name = "create"},
    [1] = {.cmd = DRM_IOW(DRM_COMMAND_BASE + 1, struct of_jobs),
           .func = do_submit,
           .name = "submit"},
    [2] = {.cmd = DRM_IOW(DRM_COMMAND_BASE + 2, struct of_wait),
           .func = do_prepare,
           .name = "prepare"},
    [3] = {.cmd = DRM_IOW(DRM_COMMAND_BASE + 3, u64), .func = do_finish, .name = "finish"},
};

DEFINE_DRM_ACCEL_FOPS(node_ops);

static const struct drm_driver driver = {
    .driver_features = DRIVER_COMPUTE_ACCEL | DRIVER_GEM,
    .open = space_open,
    .postclose = space_close,
    .gem_create_object = npu_gem_new,
    DRM_GEM_SHMEM_DRIVER_OPS,
    .ioctls = requests,
    .num_ioctls = ARRAY_SIZE(requests),
    .fops = &node_ops,
    .name = "rocket",
    .desc = "NPU of tests",
    .date = "20260101",
    .major = 0,
    .minor = 0,
};

static struct drm_device *node;

int npu_rocket_init(void)
{
    node = npu_device_add(&driver, "rknnd-rocket");
    return PTR_ERR_OR_ZERO(node);
}

void npu_rocket_exit(void)
{
    npu_device_remove(node);
}
