// The requests of the maker's driver, on a node of DRM and on /dev/rknpu.
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_gem_shmem_helper.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_vma_manager.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "npu_module.h"

#define FIRST_ADDRESS 0x10000
#define CORES         3

static uint version = 908; // of the driver: major * 10000 + minor * 100 + patch
module_param(version, uint, 0644);

struct of_action {
    u32 what, value;
};

struct of_create {
    u32 handle, flags;
    u64 size, object, address, sram;
    s32 domain;
    u32 cores;
};
#define CREATE_OLD 40

struct of_map {
    u32 handle, zero;
    u64 offset;
};

struct of_destroy {
    u32 handle, zero;
    u64 object;
};

struct of_sync {
    u32 way, zero;
    u64 object, offset, size;
};

struct of_submit {
    u32 flags, ms, start, number, done;
    s32 priority;
    u64 records;
    u32 domain, zero;
    u64 base;
    s64 ns;
    u32 cores;
    s32 fence;
    struct {
        u32 start, number;
    } of_core[5];
};

static size_t create_size(void)
{
    return version >= 906 ? sizeof(struct of_create) : CREATE_OLD;
}

static int do_action(struct of_action *a)
{
    switch (a->what) {
    case 0:
        a->value = 0x46495245;
        return 0;
    case 1:
        a->value = version;
        return 0;
    case 18:
        a->value = 1;
        return 0;
    case 22:
    case 23:
        a->value = 0;
        return 0;
    case 24:
        a->value = 0;
        return version >= 906 ? 0 : -EINVAL;
    default:
        return -EINVAL;
    }
}

static int do_sync(struct npu_space *s, struct of_sync *a)
{
    struct npu_memory *m = npu_space_by_id(s, a->object);

    if (!m || a->offset > m->size || a->size > m->size - a->offset || !a->way || a->way & ~3u)
        return -EINVAL;
    return m->imported ? -EINVAL
                       : 0; // this machine has one memory, and others' is not the driver's
}

static int fill_cores(const struct of_submit *a, const struct npu_memory *m, struct npu_message *to)
{
    u32 at = 0, n_cores = hweight32(a->cores);

    for (u32 core = 0; core < CORES; core++) {
        u32 entry = n_cores == 3 ? core + 2 : core;

        if (!(a->cores >> core & 1))
            continue;
        to->first[at] = a->of_core[entry].start;
        to->n[at] = a->of_core[entry].number;
        if (!to->n[at] || ((u64)to->first[at] + to->n[at]) * 40 > m->size)
            return -EINVAL;
        at++;
    }
    return 0;
}

static int do_submit(struct npu_space *s, struct of_submit *a)
{
    struct npu_memory *m = npu_space_by_id(s, a->records);
    struct npu_job *job;
    int r;

    if (!m || !a->cores || a->cores > 7 || a->cores == 5 || a->cores == 6 || !a->number ||
        (a->flags & 1) == 0 || a->flags & 0x1a || a->domain)
        return -EINVAL;
    job = npu_job_new(s, 0);
    if (IS_ERR(job))
        return PTR_ERR(job);
    job->message.kind = NPU_RKNPU;
    job->message.core_mask = a->cores;
    job->message.records = m->node.start;
    r = fill_cores(a, m, &job->message);
    if (!r) {
        npu_job_queue(job);
        r = npu_job_wait(job, 3ul * a->ms);
        a->done = job->done;
    }
    npu_job_put(job);
    return r;
}

// ---- the node of DRM ----

static int drm_create_memory(struct drm_device *dev, struct drm_file *f, struct of_create *a)
{
    struct drm_gem_shmem_object *made = NULL;
    struct drm_gem_object *obj;
    struct npu_memory *m;
    struct dma_buf *file;
    int r = 0;

    if (a->handle) { // that of a dma-buf
        obj = drm_gem_object_lookup(f, a->handle);
        if (!obj)
            return -EINVAL;
    } else {
        if (!a->size || a->size > SZ_1G)
            return -EINVAL;
        made = drm_gem_shmem_create(dev, PAGE_ALIGN(a->size));
        if (IS_ERR(made))
            return PTR_ERR(made);
        obj = &made->base;
        r = drm_gem_handle_create(f, obj, &a->handle);
    }
    file = r ? ERR_PTR(r) : npu_gem_file(obj);
    m = IS_ERR(file) ? ERR_CAST(file)
                     : npu_space_add(f->driver_priv, a->handle, obj->size, file, obj);
    if (!IS_ERR(m)) {
        a->size = m->size;
        a->object = m->id;
        a->address = m->node.start;
    } else if (made && !r) {
        drm_gem_handle_delete(f, a->handle);
    }
    drm_gem_object_put(obj);
    return PTR_ERR_OR_ZERO(m);
}

static int drm_action(struct drm_device *dev, void *a, struct drm_file *f)
{
    return do_action(a);
}

static int drm_submit(struct drm_device *dev, void *a, struct drm_file *f)
{
    return do_submit(f->driver_priv, a);
}

static int drm_create(struct drm_device *dev, void *a, struct drm_file *f)
{
    return drm_create_memory(dev, f, a);
}

static int drm_map(struct drm_device *dev, void *data, struct drm_file *f)
{
    struct of_map *a = data;
    struct drm_gem_object *obj = drm_gem_object_lookup(f, a->handle);
    int r;

    if (!obj)
        return -EINVAL;
    r = drm_gem_create_mmap_offset(obj);
    a->offset = drm_vma_node_offset_addr(&obj->vma_node);
    drm_gem_object_put(obj);
    return r;
}

static int drm_destroy(struct drm_device *dev, void *data, struct drm_file *f)
{
    struct of_destroy *a = data;
    struct npu_memory *m = npu_space_by_id(f->driver_priv, a->object);

    if (!m || m->handle != a->handle)
        return -EINVAL;
    return drm_gem_handle_delete(f, a->handle);
}

static int drm_sync(struct drm_device *dev, void *a, struct drm_file *f)
{
    return do_sync(f->driver_priv, a);
}

static const size_t sizes[] = {
    sizeof(struct of_action), sizeof(struct of_submit),  0,
    sizeof(struct of_map),    sizeof(struct of_destroy), sizeof(struct of_sync)};

static bool is_right_size(uint nr, size_t size)
{
    return nr < ARRAY_SIZE(sizes) && size == (nr == 2 ? create_size() : sizes[nr]);
}

// As the driver, whose requests' numbers hold their sizes.
static long drm_checked_ioctl(struct file *f, uint request, ulong argument)
{
    uint nr = _IOC_NR(request);

    if (nr >= DRM_COMMAND_BASE && nr < DRM_COMMAND_BASE + ARRAY_SIZE(sizes) &&
        !is_right_size(nr - DRM_COMMAND_BASE, _IOC_SIZE(request)))
        return -EINVAL;
    return drm_ioctl(f, request, argument);
}

static int space_open(struct drm_device *dev, struct drm_file *f)
{
    struct npu_space *s = kzalloc(sizeof(*s), GFP_KERNEL);

    if (!s)
        return -ENOMEM;
    f->driver_priv = s;
    return npu_space_init(s, FIRST_ADDRESS);
}

static void space_close(struct drm_device *dev, struct drm_file *f)
{
    npu_space_done(f->driver_priv);
    kfree(f->driver_priv);
}

#define REQUEST(nr, type, function)                                                                \
    [nr] = {.cmd = DRM_IOWR(DRM_COMMAND_BASE + (nr), type),                                        \
            .func = function,                                                                      \
            .flags = DRM_RENDER_ALLOW,                                                             \
            .name = #function}

static const struct drm_ioctl_desc requests[] = {
    REQUEST(0, struct of_action, drm_action),   REQUEST(1, struct of_submit, drm_submit),
    REQUEST(2, struct of_create, drm_create),   REQUEST(3, struct of_map, drm_map),
    REQUEST(4, struct of_destroy, drm_destroy), REQUEST(5, struct of_sync, drm_sync),
};

static const struct file_operations node_ops = {
    .owner = THIS_MODULE,
    .open = drm_open,
    .release = drm_release,
    .unlocked_ioctl = drm_checked_ioctl,
    .poll = drm_poll,
    .read = drm_read,
    .llseek = noop_llseek,
    .mmap = drm_gem_mmap,
    .fop_flags = FOP_UNSIGNED_OFFSET,
};

static const struct drm_driver driver = {
    .driver_features = DRIVER_GEM | DRIVER_RENDER,
    .open = space_open,
    .postclose = space_close,
    .gem_create_object = npu_gem_new,
    DRM_GEM_SHMEM_DRIVER_OPS,
    .ioctls = requests,
    .num_ioctls = ARRAY_SIZE(requests),
    .fops = &node_ops,
    .name = "rknpu",
    .desc = "NPU of tests",
    .date = "20260101",
    .minor = 9,
    .patchlevel = 8,
};

// ---- /dev/rknpu ----

static int misc_create_memory(struct npu_space *s, struct of_create *a)
{
    struct dma_buf *file = dma_buf_get((int)a->handle);
    struct npu_memory *m;

    if (IS_ERR(file))
        return PTR_ERR(file);
    if (a->size > file->size) {
        dma_buf_put(file);
        return -EINVAL;
    }
    m = npu_space_add(s, a->handle, file->size, file, NULL);
    if (IS_ERR(m))
        return PTR_ERR(m);
    a->object = m->id;
    a->address = m->node.start;
    return 0;
}

static int misc_destroy(struct npu_space *s, const struct of_destroy *a)
{
    struct npu_memory *m = npu_space_by_id(s, a->object);

    if (!m)
        return -EINVAL;
    npu_space_remove(s, m);
    return 0;
}

static long misc_ioctl(struct file *f, uint request, ulong argument)
{
    union {
        struct of_action action;
        struct of_submit submit;
        struct of_create create;
        struct of_destroy destroy;
        struct of_sync sync;
    } a = {0};
    struct npu_space *s = f->private_data;
    uint nr = _IOC_NR(request);
    long r;

    if (_IOC_TYPE(request) != 'r' || !is_right_size(nr, _IOC_SIZE(request)) || nr == 3)
        return -ENOTTY;
    if (copy_from_user(&a, (void __user *)argument, _IOC_SIZE(request)))
        return -EFAULT;
    r = nr == 0   ? do_action(&a.action)
        : nr == 1 ? do_submit(s, &a.submit)
        : nr == 2 ? misc_create_memory(s, &a.create)
        : nr == 4 ? misc_destroy(s, &a.destroy)
                  : do_sync(s, &a.sync);
    if (copy_to_user((void __user *)argument, &a, _IOC_SIZE(request)))
        return -EFAULT;
    return r;
}

static int misc_open_file(struct inode *inode, struct file *f)
{
    struct npu_space *s = kzalloc(sizeof(*s), GFP_KERNEL);

    if (!s)
        return -ENOMEM;
    f->private_data = s;
    return npu_space_init(s, FIRST_ADDRESS);
}

static int misc_close_file(struct inode *inode, struct file *f)
{
    npu_space_done(f->private_data);
    kfree(f->private_data);
    return 0;
}

static const struct file_operations misc_ops = {
    .owner = THIS_MODULE,
    .open = misc_open_file,
    .release = misc_close_file,
    .unlocked_ioctl = misc_ioctl,
    .llseek = noop_llseek,
};

static struct miscdevice misc_node = {
    .minor = MISC_DYNAMIC_MINOR, .name = "rknpu", .fops = &misc_ops, .mode = 0660};
static struct drm_device *drm_node;

int npu_rknpu_init(void)
{
    int r = misc_register(&misc_node);

    if (r)
        return r;
    drm_node = npu_device_add(&driver, "rknnd-rknpu");
    if (IS_ERR(drm_node))
        misc_deregister(&misc_node);
    return PTR_ERR_OR_ZERO(drm_node);
}

void npu_rknpu_exit(void)
{
    npu_device_remove(drm_node);
    misc_deregister(&misc_node);
}
