// Intrusive doubly linked list. A list is a `struct list` used as head; members embed another.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *prev, *next;
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_append(struct list *head, struct list *entry)
{
    entry->prev = head->prev;
    entry->next = head;
    head->prev->next = entry;
    head->prev = entry;
}

/// Takes an entry out of whatever list it is in and leaves it as an empty list: safe to repeat.
static inline void list_remove(struct list *entry)
{
    entry->prev->next = entry->next;
    entry->next->prev = entry->prev;
    list_init(entry);
}

/// Appends all entries of `from`, in their order; it is empty then.
static inline void list_move(struct list *to, struct list *from)
{
    while (!list_empty(from)) {
        struct list *entry = from->next;
        list_remove(entry);
        list_append(to, entry);
    }
}

#define list_first(head, type, member)                                                             \
    (list_empty(head) ? NULL : container_of((head)->next, type, member))

#define list_for_each(entry, head, member)                                                         \
    for (entry = container_of((head)->next, __typeof__(*entry), member); &entry->member != (head); \
         entry = container_of(entry->member.next, __typeof__(*entry), member))

/// The entry may be removed (and freed) in the body; its successor may not.
#define list_for_each_safe(entry, after, head, member)                                             \
    for (entry = container_of((head)->next, __typeof__(*entry), member),                           \
        after = container_of(entry->member.next, __typeof__(*entry), member);                      \
         &entry->member != (head);                                                                 \
         entry = after, after = container_of(entry->member.next, __typeof__(*entry), member))
