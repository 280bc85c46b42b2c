// Memory, jobs, and the device of the program that computes them.
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_gem_shmem_helper.h>
#include <drm/drm_prime.h>
#include <linux/dma-mapping.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "npu_module.h"

#define LAST_ADDRESS 0xffff0000u

// ---- what is there, for tests: /sys/module/rknnd_npu/parameters ----

static atomic_t n_objects, n_jobs, n_taken, n_imports;

static int show_count(char *buffer, const struct kernel_param *p)
{
    return sysfs_emit(buffer, "%d\n", atomic_read((atomic_t *)p->arg));
}

static const struct kernel_param_ops count_ops = {.get = show_count};
module_param_cb(objects, &count_ops, &n_objects, 0444);
module_param_cb(jobs, &count_ops, &n_jobs, 0444);
module_param_cb(imports, &count_ops, &n_imports, 0444); // dma-bufs of others, of nodes of DRM
module_param_cb(taken, &count_ops, &n_taken, 0444);     // jobs that are being computed

// ---- spaces ----

int npu_space_init(struct npu_space *s, u64 first_address)
{
    mutex_init(&s->lock);
    INIT_LIST_HEAD(&s->memories);
    drm_mm_init(&s->mm, first_address, LAST_ADDRESS - first_address);
    s->next_id = 0x4000;
    return 0;
}

void npu_space_done(struct npu_space *s)
{
    struct npu_memory *m, *next;

    list_for_each_entry_safe(m, next, &s->memories, link) npu_space_remove(s, m);
    drm_mm_takedown(&s->mm);
}

struct npu_memory *npu_space_add(struct npu_space *s, u32 handle, u64 size, struct dma_buf *file,
                                 const void *object)
{
    struct npu_memory *m = kzalloc(sizeof(*m), GFP_KERNEL);
    int r = m ? 0 : -ENOMEM;

    if (!r) {
        mutex_lock(&s->lock);
        // A page more, so that what is behind it is nobody's.
        r = drm_mm_insert_node(&s->mm, &m->node, size + PAGE_SIZE);
        if (!r) {
            m->id = s->next_id++;
            m->handle = handle;
            m->size = size;
            m->file = file;
            m->object = object;
            m->imported = object && ((const struct drm_gem_object *)object)->import_attach;
            atomic_add(m->imported, &n_imports);
            list_add_tail(&m->link, &s->memories);
        }
        mutex_unlock(&s->lock);
    }
    if (!r)
        return m;
    kfree(m);
    dma_buf_put(file);
    return ERR_PTR(r);
}

struct npu_memory *npu_space_by_id(struct npu_space *s, u64 id)
{
    struct npu_memory *m, *found = NULL;

    mutex_lock(&s->lock);
    list_for_each_entry(m, &s->memories, link) if (m->id == id) found = m;
    mutex_unlock(&s->lock);
    return found;
}

struct npu_memory *npu_space_by_handle(struct npu_space *s, u32 handle)
{
    struct npu_memory *m, *found = NULL;

    mutex_lock(&s->lock);
    list_for_each_entry(m, &s->memories, link) if (m->handle == handle) found = m;
    mutex_unlock(&s->lock);
    return found;
}

void npu_space_remove(struct npu_space *s, struct npu_memory *m)
{
    mutex_lock(&s->lock);
    list_del(&m->link);
    drm_mm_remove_node(&m->node);
    mutex_unlock(&s->lock);
    atomic_sub(m->imported, &n_imports);
    dma_buf_put(m->file);
    kfree(m);
}

// ---- jobs ----

static DEFINE_MUTEX(jobs_lock); // of the lists
static LIST_HEAD(waiting);
static LIST_HEAD(running);
static DECLARE_WAIT_QUEUE_HEAD(helpers);
static u64 next_job = 1;

static void job_release(struct kref *refs)
{
    struct npu_job *job = container_of(refs, struct npu_job, refs);

    for (u32 i = 0; job->memories && i < job->message.n_files; i++)
        if (job->memories[i])
            dma_buf_put(job->memories[i]);
    dma_fence_put(job->fence);
    kvfree(job->memories);
    kvfree(job->files);
    kvfree(job->tasks);
    kfree(job);
    atomic_dec(&n_jobs);
}

void npu_job_put(struct npu_job *job)
{
    kref_put(&job->refs, job_release);
}

static void job_end(struct npu_job *job, int status, u32 done)
{
    job->status = status;
    job->done = done;
    complete_all(&job->ended);
    if (job->fence) {
        if (status)
            dma_fence_set_error(job->fence, status);
        dma_fence_signal(job->fence);
    }
}

struct npu_job *npu_job_new(struct npu_space *s, u32 n_tasks)
{
    struct npu_job *job = kzalloc(sizeof(*job), GFP_KERNEL);
    struct npu_memory *m;
    u32 n = 0;

    if (!job)
        return ERR_PTR(-ENOMEM);
    atomic_inc(&n_jobs);
    kref_init(&job->refs);
    init_completion(&job->ended);
    mutex_lock(&s->lock);
    list_for_each_entry(m, &s->memories, link) n++;
    job->files = kvcalloc(n + 1, sizeof(*job->files), GFP_KERNEL);
    job->memories = kvcalloc(n + 1, sizeof(*job->memories), GFP_KERNEL);
    job->tasks = kvcalloc(n_tasks + 1, sizeof(*job->tasks), GFP_KERNEL);
    job->message.n_files = n;
    job->message.n_tasks = n_tasks;
    n = 0;
    if (job->files && job->memories)
        list_for_each_entry(m, &s->memories, link)
        {
            get_dma_buf(m->file);
            job->memories[n] = m->file;
            job->files[n++] = (struct npu_file){.address = m->node.start, .size = m->size};
        }
    mutex_unlock(&s->lock);
    if (job->files && job->memories && job->tasks)
        return job;
    npu_job_put(job);
    return ERR_PTR(-ENOMEM);
}

void npu_job_queue(struct npu_job *job)
{
    kref_get(&job->refs); // the lists'
    mutex_lock(&jobs_lock);
    job->message.id = next_job++;
    list_add_tail(&job->link, &waiting);
    mutex_unlock(&jobs_lock);
    wake_up(&helpers);
}

int npu_job_wait(struct npu_job *job, unsigned long ms)
{
    long left = wait_for_completion_killable_timeout(&job->ended, msecs_to_jiffies(ms));
    bool taken = true;

    if (left > 0)
        return job->status;
    mutex_lock(&jobs_lock);
    if (!job->helper && !completion_done(&job->ended)) {
        list_del(&job->link);
        taken = false;
    }
    mutex_unlock(&jobs_lock);
    if (!taken) {
        job_end(job, -ETIMEDOUT, 0);
        npu_job_put(job);
    }
    return left ? left : -ETIMEDOUT;
}

// ---- the program that computes ----

static struct npu_job *job_take(void *helper)
{
    struct npu_job *job;

    mutex_lock(&jobs_lock);
    job = list_first_entry_or_null(&waiting, struct npu_job, link);
    if (job) {
        job->helper = helper;
        list_move_tail(&job->link, &running);
        atomic_inc(&n_taken);
    }
    mutex_unlock(&jobs_lock);
    return job;
}

// The job leaves the running ones: `id` 0 any of this helper's.
static struct npu_job *job_take_back(void *helper, u64 id)
{
    struct npu_job *job, *found = NULL;

    mutex_lock(&jobs_lock);
    list_for_each_entry(job, &running, link) if (job->helper == helper &&
                                                 (!id || job->message.id == id)) found = job;
    if (found) {
        list_del(&found->link);
        atomic_dec(&n_taken);
    }
    mutex_unlock(&jobs_lock);
    return found;
}

static ssize_t job_copy(struct npu_job *job, char __user *to, size_t room)
{
    size_t n = job->message.n_files * sizeof(*job->files);
    size_t size = sizeof(job->message) + n + job->message.n_tasks * sizeof(*job->tasks);
    u32 opened = 0;
    int r = size > room ? -EMSGSIZE : 0;

    for (; !r && opened < job->message.n_files; opened++) {
        r = get_unused_fd_flags(O_CLOEXEC);
        if (r < 0)
            break;
        job->files[opened].fd = r;
        r = 0;
    }
    if (!r && (copy_to_user(to, &job->message, sizeof(job->message)) ||
               copy_to_user(to + sizeof(job->message), job->files, n) ||
               copy_to_user(to + sizeof(job->message) + n, job->tasks,
                            job->message.n_tasks * sizeof(*job->tasks))))
        r = -EFAULT;
    for (u32 i = 0; i < opened; i++) {
        if (r) {
            put_unused_fd(job->files[i].fd);
            continue;
        }
        get_dma_buf(job->memories[i]);
        fd_install(job->files[i].fd, job->memories[i]->file);
    }
    return r ? r : size;
}

static ssize_t helper_read(struct file *f, char __user *to, size_t room, loff_t *at)
{
    struct npu_job *job = NULL;
    ssize_t r = wait_event_interruptible(helpers, (job = job_take(f)) != NULL);

    if (r)
        return r;
    r = job_copy(job, to, room);
    if (r < 0 && job_take_back(f, job->message.id)) {
        job_end(job, r, 0);
        npu_job_put(job);
    }
    return r;
}

static ssize_t helper_write(struct file *f, const char __user *from, size_t size, loff_t *at)
{
    struct npu_answer answer;
    struct npu_job *job;

    if (size != sizeof(answer) || copy_from_user(&answer, from, size))
        return -EINVAL;
    job = answer.id ? job_take_back(f, answer.id) : NULL;
    if (!job)
        return -ENOENT;
    job_end(job, answer.status, answer.done);
    npu_job_put(job);
    return size;
}

// What it was working on does not end.
static int helper_release(struct inode *inode, struct file *f)
{
    struct npu_job *job;

    while ((job = job_take_back(f, 0))) {
        job_end(job, -ETIMEDOUT, 0);
        npu_job_put(job);
    }
    return 0;
}

static const struct file_operations helper_ops = {
    .owner = THIS_MODULE,
    .read = helper_read,
    .write = helper_write,
    .release = helper_release,
    .llseek = noop_llseek,
};

static struct miscdevice helper_device = {
    .minor = MISC_DYNAMIC_MINOR, .name = "rknnd-npu", .fops = &helper_ops, .mode = 0600};

// ---- memory of nodes of DRM ----

static void gem_free(struct drm_gem_object *obj)
{
    drm_gem_shmem_object_free(obj);
    atomic_dec(&n_objects);
}

static struct npu_memory *space_by_object(struct npu_space *s, const void *object)
{
    struct npu_memory *m, *found = NULL;

    mutex_lock(&s->lock);
    list_for_each_entry(m, &s->memories, link) if (m->object == object) found = m;
    mutex_unlock(&s->lock);
    return found;
}

// The last handle of a file's is gone.
static void gem_close(struct drm_gem_object *obj, struct drm_file *f)
{
    struct npu_memory *m;

    while ((m = space_by_object(f->driver_priv, obj)))
        npu_space_remove(f->driver_priv, m);
}

static const struct drm_gem_object_funcs gem_funcs = {
    .free = gem_free,
    .close = gem_close,
    .print_info = drm_gem_shmem_object_print_info,
    .pin = drm_gem_shmem_object_pin,
    .unpin = drm_gem_shmem_object_unpin,
    .get_sg_table = drm_gem_shmem_object_get_sg_table,
    .vmap = drm_gem_shmem_object_vmap,
    .vunmap = drm_gem_shmem_object_vunmap,
    .mmap = drm_gem_shmem_object_mmap,
    .vm_ops = &drm_gem_shmem_vm_ops,
};

struct drm_gem_object *npu_gem_new(struct drm_device *dev, size_t size)
{
    struct drm_gem_shmem_object *shmem = kzalloc(sizeof(*shmem), GFP_KERNEL);

    if (!shmem)
        return ERR_PTR(-ENOMEM);
    shmem->base.funcs = &gem_funcs;
    atomic_inc(&n_objects);
    return &shmem->base;
}

struct dma_buf *npu_gem_file(struct drm_gem_object *obj)
{
    if (!obj->import_attach)
        return drm_gem_prime_export(obj, O_RDWR | O_CLOEXEC);
    get_dma_buf(obj->import_attach->dmabuf);
    return obj->import_attach->dmabuf;
}

// ---- devices ----

struct drm_device *npu_device_add(const struct drm_driver *driver, const char *name)
{
    struct platform_device *p = platform_device_register_simple(name, PLATFORM_DEVID_NONE, NULL, 0);
    struct drm_device *dev;
    int r;

    if (IS_ERR(p))
        return ERR_CAST(p);
    dma_coerce_mask_and_coherent(&p->dev, DMA_BIT_MASK(64));
    dev = drm_dev_alloc(driver, &p->dev);
    if (!IS_ERR(dev)) {
        r = drm_dev_register(dev, 0);
        if (!r)
            return dev;
        drm_dev_put(dev);
        dev = ERR_PTR(r);
    }
    platform_device_unregister(p);
    return dev;
}

void npu_device_remove(struct drm_device *dev)
{
    struct platform_device *p = to_platform_device(dev->dev);

    drm_dev_unregister(dev);
    drm_dev_put(dev);
    platform_device_unregister(p);
}

static int __init npu_init(void)
{
    int r = misc_register(&helper_device);

    if (r)
        return r;
    r = npu_rknpu_init();
    if (!r) {
        r = npu_rocket_init();
        if (r)
            npu_rknpu_exit();
    }
    if (r)
        misc_deregister(&helper_device);
    return r;
}

static void __exit npu_exit(void)
{
    npu_rocket_exit();
    npu_rknpu_exit();
    misc_deregister(&helper_device);
}

module_init(npu_init);
module_exit(npu_exit);
MODULE_DESCRIPTION("Nodes of NPU drivers whose jobs a program computes, for tests of rknnd");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_IMPORT_NS(DMA_BUF);
