#include "tests/sim/plan_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

struct number {
    const char *name;
    size_t offset, size;
};

#define NUMBER(member) \
    { #member, offsetof(struct sim_plan, member), sizeof(((struct sim_plan *)0)->member) }

/* In the order in which a story gets simpler by them. */
static const struct number numbers[] = {
    NUMBER(nodes),
    NUMBER(clients),
    NUMBER(depth),
    NUMBER(chaos_ms),
    NUMBER(faults_at_founding),
    NUMBER(own_mode),
    NUMBER(log_mode),
    NUMBER(remotes),
    NUMBER(remote_permille),
    NUMBER(remote_connections),
    NUMBER(more_permille),
    NUMBER(read_permille),
    NUMBER(view_permille),
    NUMBER(bounded_ms),
    NUMBER(lease_reads),
    NUMBER(leased_permille),
    NUMBER(retention_bytes),
    NUMBER(write_permille),
    NUMBER(session_permille),
    NUMBER(session_ttl_ms),
    NUMBER(keep_permille),
    NUMBER(lease_permille),
    NUMBER(lease_ttl_ms),
    NUMBER(late_permille),
    NUMBER(upgrade_permille),
    NUMBER(keys),
    NUMBER(hot_permille),
    NUMBER(value_bytes_max),
    NUMBER(op_pause_ns),
    NUMBER(timeout_ms),
    NUMBER(fault_pause_ms),
    NUMBER(fault_ms_max),
    NUMBER(drift_ppm),
    NUMBER(turn_ns_max),
    NUMBER(net.spike_permille),
    NUMBER(net.spike_ns),
    NUMBER(net.split_permille),
    NUMBER(net.latency_min_ns),
    NUMBER(net.latency_max_ns),
    NUMBER(net.window_bytes),
    NUMBER(net.retransmit_backoff),
    NUMBER(disk.op_ns),
    NUMBER(disk.sync_ns),
    NUMBER(disk.byte_ps),
    NUMBER(election_ms),
    NUMBER(heartbeat_ms),
    NUMBER(disk_hang_ms),
    NUMBER(segment_bytes),
    NUMBER(window_bytes),
    NUMBER(image_log_bytes),
    NUMBER(keep_entries),
    NUMBER(history_revisions),
    NUMBER(history_ms),
    NUMBER(history_bytes),
    NUMBER(rot_budget),
    NUMBER(rot_writes),
    NUMBER(scrub_ms),
    NUMBER(digest_ms),
    NUMBER(healing),
    NUMBER(evict_permille),
    NUMBER(slow_permille),
    NUMBER(inflight_bytes),
    NUMBER(net.loss_permille),
    NUMBER(net.frame_drop_permille),
    NUMBER(net.frame_double_permille),
    NUMBER(net.frame_swap_permille),
    NUMBER(net.frame_change_permille),
    NUMBER(peer_inflight_bytes),
    NUMBER(peer_inflight_requests),
};

enum { NUMBERS = sizeof(numbers) / sizeof(numbers[0]) };

size_t sim_plan_numbers(void) {
    return (size_t)NUMBERS + SIM_FAULTS;
}

const char *sim_plan_name(size_t i) {
    return i < NUMBERS ? numbers[i].name : sim_fault_name((enum sim_fault_kind)(i - NUMBERS));
}

int64_t sim_plan_number(const struct sim_plan *plan, size_t i) {
    if (i >= NUMBERS) {
        return plan->weights[i - NUMBERS];
    }
    const char *at = (const char *)plan + numbers[i].offset;
    switch (numbers[i].size) {
    case sizeof(bool): return *(const bool *)at;
    case sizeof(uint32_t): return *(const uint32_t *)(const void *)at;
    default: return *(const int64_t *)(const void *)at;
    }
}

void sim_plan_set_number(struct sim_plan *plan, size_t i, int64_t value) {
    if (i >= NUMBERS) {
        plan->weights[i - NUMBERS] = (uint32_t)value;
        return;
    }
    char *at = (char *)plan + numbers[i].offset;
    switch (numbers[i].size) {
    case sizeof(bool): *(bool *)at = value != 0; break;
    case sizeof(uint32_t): *(uint32_t *)(void *)at = (uint32_t)value; break;
    default: *(int64_t *)(void *)at = value; break;
    }
}

bool sim_plan_set(struct sim_plan *plan, const char *text) {
    const char *equals = strchr(text, '=');
    if (equals == NULL) {
        return false;
    }
    char *end;
    errno = 0;
    int64_t value = strtoll(equals + 1, &end, 10);
    if (errno != 0 || end == equals + 1 || *end != '\0') {
        return false;
    }
    for (size_t i = 0; i < sim_plan_numbers(); i++) {
        const char *name = sim_plan_name(i);
        if (strlen(name) == (size_t)(equals - text) &&
            memcmp(name, text, (size_t)(equals - text)) == 0) {
            sim_plan_set_number(plan, i, value);
            return true;
        }
    }
    return false;
}

void sim_plan_print_difference(const struct sim_plan *plan, const struct sim_plan *other,
                               FILE *out) {
    for (size_t i = 0; i < sim_plan_numbers(); i++) {
        int64_t value = sim_plan_number(plan, i);
        if (value != sim_plan_number(other, i)) {
            (void)fprintf(out, " --set %s=%" PRId64, sim_plan_name(i), value);
        }
    }
}
