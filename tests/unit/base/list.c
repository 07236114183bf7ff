#include "base/list.h"

#include <criterion/criterion.h>

struct item {
    int number;
    struct list_link link;
};

static struct list_link head;
static struct item items[4];

static void init(void) {
    list_init(&head);
    for (int i = 0; i < 4; i++) {
        items[i].number = i;
        list_init(&items[i].link);
    }
}

TestSuite(base_list, .init = init);

static void push(int number) {
    list_push_back(&head, &items[number].link);
}

/* -1: the list is empty. */
static int pop(void) {
    struct list_link *link = list_pop_front(&head);
    return link != NULL ? LIST_ITEM(link, struct item, link)->number : -1;
}

Test(base_list, empty_one_gives_nothing) {
    cr_assert(list_empty(&head));
    cr_assert_eq(pop(), -1);
}

Test(base_list, first_in_is_first_out) {
    push(0);
    push(1);
    push(2);
    cr_assert_not(list_empty(&head));
    cr_assert_eq(pop(), 0);
    cr_assert_eq(pop(), 1);
    push(3);
    cr_assert_eq(pop(), 2);
    cr_assert_eq(pop(), 3);
    cr_assert_eq(pop(), -1);
    cr_assert(list_empty(&head));
}

Test(base_list, removes_from_anywhere) {
    for (int removed = 0; removed < 3; removed++) {
        push(0);
        push(1);
        push(2);
        list_remove(&items[removed].link);
        cr_assert(list_empty(&items[removed].link), "points to itself again");
        for (int i = 0; i < 3; i++) {
            if (i != removed) {
                cr_assert_eq(pop(), i);
            }
        }
        cr_assert_eq(pop(), -1);
    }
}

Test(base_list, removing_what_is_on_no_list_is_harmless) {
    push(0);
    list_remove(&items[1].link);
    list_remove(&items[1].link);
    cr_assert_eq(pop(), 0);
}

Test(base_list, can_be_walked_in_both_directions) {
    push(0);
    push(1);
    push(2);
    int expected = 0;
    for (struct list_link *link = head.next; link != &head; link = link->next) {
        cr_assert_eq(LIST_ITEM(link, struct item, link)->number, expected++);
    }
    cr_assert_eq(expected, 3);
    for (struct list_link *link = head.prev; link != &head; link = link->prev) {
        cr_assert_eq(LIST_ITEM(link, struct item, link)->number, --expected);
    }
    cr_assert_eq(expected, 0);
}
