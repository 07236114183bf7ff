/* An intrusive doubly linked list: a member embeds a `struct list_link`, no allocation ever fails.
 * A link that is not on a list points to itself. One thread at a time. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_link {
    struct list_link *next, *prev;
};

static inline void list_init(struct list_link *link) {
    link->next = link->prev = link;
}

static inline bool list_empty(const struct list_link *head) {
    return head->next == head;
}

static inline void list_push_back(struct list_link *head, struct list_link *link) {
    link->prev = head->prev;
    link->next = head;
    head->prev->next = link;
    head->prev = link;
}

static inline void list_remove(struct list_link *link) {
    link->prev->next = link->next;
    link->next->prev = link->prev;
    list_init(link);
}

static inline struct list_link *list_pop_front(struct list_link *head) {
    struct list_link *link = head->next;
    if (link == head) {
        return NULL;
    }
    list_remove(link);
    return link;
}

/* The struct that embeds `link` as its `member`. */
#define LIST_ITEM(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

#endif
