/* A program: the way through it, and what is done on the way. */
#include "base/assert.h"
#include "base/mem.h"
#include "kv/batch.h"
#include "kv/work.h"

static struct work_frame *top(struct work *work) {
    return &work->frames[work->depth - 1];
}

/* `answer` is zero but for its op, or, the second time, says which way to go. */
static void push(struct work *work, struct slice program, struct kv_answer *answer, bool decided) {
    ASSERT(work->depth < KV_TXN_DEPTH_MAX);
    struct work_frame *frame = &work->frames[work->depth++];
    *frame = (struct work_frame){.answer = answer, .decided = decided};
    bool good = txn_open(program, &frame->parts); /* checked when the command was decoded */
    ASSERT(good);
    if (decided) {
        frame->steps = answer->held ? frame->parts.then_steps : frame->parts.else_steps;
    }
}

void work_begin_program(struct work *work, struct slice program) {
    work->program = program;
    work->depth = 0;
    push(work, program, work->answer, work->checked);
}

/* ---------------------------------------------------------------------------- compares */

static bool relates(enum kv_relation relation, int order) {
    switch (relation) {
    case KV_EQUAL: return order == 0;
    case KV_NOT_EQUAL: return order != 0;
    case KV_LESS: return order < 0;
    case KV_GREATER: return order > 0;
    }
    return false;
}

/* `version` NULL: there is no such key. */
static uint64_t number_of(enum kv_field field, const struct kv_version *version) {
    if (version == NULL) {
        return 0;
    }
    switch (field) {
    case KV_FIELD_CREATE_REV: return version->create_rev;
    case KV_FIELD_MOD_REV: return version->main;
    case KV_FIELD_VERSION: return version->version;
    case KV_FIELD_LEASE: return (uint64_t)version_lease(version);
    case KV_FIELD_EXISTS: return 1;
    case KV_FIELD_VALUE: break;
    }
    return 0;
}

static bool holds(const struct kv_compare *compare, const struct kv_version *version) {
    if (compare->field == KV_FIELD_VALUE) {
        return version != NULL &&
               relates(compare->relation, slice_compare(version_value(version), compare->value));
    }
    uint64_t number = number_of(compare->field, version);
    return relates(compare->relation, (number > compare->number) - (number < compare->number));
}

/* Some keys of one compare, against the state before the transaction. `*held` is false as soon as one does
 * not hold; work->walking: there are more keys to look at. */
static void compare_some(struct batch *batch, struct work *work, const struct kv_compare *compare,
                         bool *held) {
    const struct kv_step range = {.op = KV_DELETE, .key = compare->key, .end = compare->end};
    struct kv_version *versions[TURN_KEYS];
    size_t count = TURN_KEYS;
    if (!work->walking) {
        work->found_any = false;
    }
    work_walk(batch, work, &range, batch->stamp.revision, versions, &count);
    *held = true;
    for (size_t i = 0; i < count; i++) {
        *held = *held && holds(compare, versions[i]);
        version_unref(versions[i]);
    }
    work->found_any = work->found_any || count > 0;
    if (!work->walking && !work->found_any) {
        *held = holds(compare, NULL);
    }
}

static void decide(struct work_frame *frame, bool held) {
    frame->answer->held = held;
    frame->decided = true;
    frame->steps = held ? frame->parts.then_steps : frame->parts.else_steps;
}

/* The next compare, or what of it fits into a turn. */
static int look_at_compare(struct batch *batch, struct work *work, struct work_frame *frame) {
    if (frame->compares_seen == frame->parts.compare_count) {
        decide(frame, true);
        return 0;
    }
    struct reader here = frame->parts.compares;
    struct kv_compare compare;
    bool good = txn_next_compare(&frame->parts.compares, &compare);
    ASSERT(good);
    bool held;
    compare_some(batch, work, &compare, &held);
    if (!held) {
        if (work->walking) {
            walk_fini(&work->walk);
            work->walking = false;
        }
        decide(frame, false);
    } else if (work->walking) {
        frame->parts.compares = here; /* it goes on */
        return work_pause(batch, TURN_KEYS);
    } else {
        frame->compares_seen++;
    }
    return work_pause(batch, 1);
}

/* ---------------------------------------------------------------------------- the way */

/* A place for the answer of the branch's next operation. */
static struct kv_answer *add_answer(struct kv_answer *to, enum kv_op op) {
    size_t needed = to->answer_count + 1;
    if ((needed & to->answer_count) == 0) { /* a power of two is full */
        struct kv_answer *answers = mem_realloc(to->answers, 2 * needed * sizeof(*answers));
        if (answers == NULL) {
            return NULL;
        }
        to->answers = answers;
    }
    struct kv_answer *answer = &to->answers[to->answer_count++];
    *answer = (struct kv_answer){.op = op};
    return answer;
}

static int look_at_step(struct batch *batch, struct work *work, struct work_frame *frame) {
    struct kv_step step;
    bool good = txn_next_step(&frame->steps, &step);
    ASSERT(good);
    struct kv_answer *answer = add_answer(frame->answer, step.op);
    if (answer == NULL) {
        return LKV_ENOMEM;
    }
    if (step.op == KV_TXN) {
        /* The frames below do not get more answers before this one is through: its place stays. */
        push(work, step.txn, answer, false);
    } else {
        work_check(batch, work, &step);
    }
    return work->rc == 0 ? work_pause(batch, 1) : 0;
}

int work_find_way(struct batch *batch, struct work *work) {
    int rc = 0;
    while (rc == 0 && work->rc == 0 && work->depth > 0) {
        struct work_frame *frame = top(work);
        if (!frame->decided) {
            rc = look_at_compare(batch, work, frame);
        } else if (frame->steps.left > 0) {
            rc = look_at_step(batch, work, frame);
        } else {
            work->depth--;
        }
    }
    if (rc == 0 && work->rc == 0) {
        work->checked = true;
        work_begin_program(work, work->program);
    }
    return rc;
}

/* One operation, or what of it fits into a call. */
static int do_step(struct batch *batch, struct work *work, struct work_frame *frame) {
    struct reader here = frame->steps;
    struct kv_step step;
    bool good = txn_next_step(&frame->steps, &step);
    ASSERT(good && frame->next < frame->answer->answer_count);
    struct kv_answer *answer = &frame->answer->answers[frame->next];
    if (step.op == KV_TXN) {
        frame->next++;
        push(work, step.txn, answer, true);
        return 0;
    }
    int rc = work_do(batch, work, &step, answer);
    if (work->walking) {
        frame->steps = here; /* it goes on */
    } else {
        frame->next++;
    }
    return rc;
}

int work_follow_way(struct batch *batch, struct work *work) {
    int rc = 0;
    while (rc == 0 && work->depth > 0) {
        struct work_frame *frame = top(work);
        if (frame->steps.left > 0) {
            rc = do_step(batch, work, frame);
        } else {
            work->depth--;
        }
    }
    return rc;
}
