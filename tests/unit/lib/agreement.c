/* What digests of several members say together (rule 25). */
#include "lib/agreement.h"

#include <criterion/criterion.h>

enum { AT = 17 };

static void hear(struct agreement *agreement, uint64_t member, uint64_t index, uint64_t digest) {
    const struct agreement_report report = {member, index, digest};
    agreement_hear(agreement, &report);
}

/* Digests of members 1, 2, ...; 0: it has said nothing. */
static enum agreement_verdict judge(const char *digests, uint64_t *majority) {
    struct agreement agreement = {.count = 0};
    uint64_t voters[AGREEMENT_MEMBERS_MAX];
    size_t count = 0;
    for (; digests[count] != '\0'; count++) {
        voters[count] = count + 1;
        if (digests[count] != '.') {
            hear(&agreement, count + 1, AT, (uint64_t)digests[count]);
        }
    }
    return agreement_judge(&agreement, AT, voters, count, majority);
}

Test(lib_agreement, judges_by_more_than_half_of_the_voters) {
    const struct {
        const char *digests;
        enum agreement_verdict verdict;
        char majority;
    } cases[] = {
        {"a", AGREEMENT_MAJORITY, 'a'},
        {".", AGREEMENT_OPEN, 0},
        {"aa", AGREEMENT_MAJORITY, 'a'},
        {"a.", AGREEMENT_OPEN, 0},
        {"ab", AGREEMENT_NONE, 0},
        {"a..", AGREEMENT_OPEN, 0},
        {"a.a", AGREEMENT_MAJORITY, 'a'},
        {"ab.", AGREEMENT_OPEN, 0},
        {"bab", AGREEMENT_MAJORITY, 'b'},
        {"abc", AGREEMENT_NONE, 0},
        {"aabb", AGREEMENT_NONE, 0},
        {"aab.", AGREEMENT_OPEN, 0},
        {"aaab", AGREEMENT_MAJORITY, 'a'},
        {"aabb.", AGREEMENT_OPEN, 0},
        {"aabbc", AGREEMENT_NONE, 0},
        {"abbbc", AGREEMENT_MAJORITY, 'b'},
        {"abcd...", AGREEMENT_OPEN, 0},
        {"aabbcc.", AGREEMENT_NONE, 0},
        {"aaaabbb", AGREEMENT_MAJORITY, 'a'},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint64_t majority = 0;
        cr_expect_eq(judge(cases[i].digests, &majority), cases[i].verdict, "%s", cases[i].digests);
        if (cases[i].verdict == AGREEMENT_MAJORITY) {
            cr_expect_eq(majority, (uint64_t)cases[i].majority, "%s", cases[i].digests);
        }
    }
}

Test(lib_agreement, only_digests_of_one_entry_are_compared) {
    struct agreement agreement = {.count = 0};
    const uint64_t voters[] = {1, 2, 3};
    uint64_t majority = 0;
    hear(&agreement, 1, AT, 5);
    hear(&agreement, 2, AT - 1, 5);
    cr_expect_eq(agreement_judge(&agreement, AT, voters, 3, &majority), AGREEMENT_OPEN);
    hear(&agreement, 2, AT, 5);
    hear(&agreement, 9, AT, 6); /* no voter */
    cr_expect_eq(agreement_judge(&agreement, AT, voters, 3, &majority), AGREEMENT_MAJORITY);
    cr_expect_eq(majority, 5);
}

Test(lib_agreement, the_newest_word_of_a_member_counts) {
    struct agreement agreement = {.count = 0};
    hear(&agreement, 1, AT, 5);
    hear(&agreement, 1, AT - 1, 6); /* late */
    cr_expect_not_null(agreement_of(&agreement, 1, AT));
    hear(&agreement, 1, AT, 7); /* of another life */
    cr_assert_not_null(agreement_of(&agreement, 1, AT));
    cr_expect_eq(agreement_of(&agreement, 1, AT)->digest, 7);
    hear(&agreement, 2, AT, 7);
    agreement_forget(&agreement, 1);
    cr_expect_null(agreement_of(&agreement, 1, AT));
    cr_expect_not_null(agreement_of(&agreement, 2, AT));
    agreement_forget(&agreement, 1);
    cr_expect_eq(agreement.count, 1);
}

Test(lib_agreement, strangers_never_overflow_it) {
    struct agreement agreement = {.count = 0};
    for (uint64_t member = 1; member < 100; member++) {
        hear(&agreement, member, AT, member);
    }
    cr_expect_eq(agreement.count, AGREEMENT_MEMBERS_MAX);
    cr_expect_not_null(agreement_of(&agreement, 1, AT));
    cr_expect_null(agreement_of(&agreement, 99, AT));
}

Test(lib_agreement, its_frame_is_golden_and_short_ones_are_refused) {
    const struct agreement_report report = {.index = 0x0102030405060708,
                                            .digest = 0x1112131415161718};
    static const uint8_t golden[] = {8,    7,    6,    5,    4,    3,    2,    1,
                                     0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
    struct buffer body = {0};
    agreement_encode(&report, &body);
    cr_assert_eq(body.size, sizeof(golden));
    cr_expect_arr_eq(body.data, golden, sizeof(golden));
    struct agreement_report out;
    struct reason why = {{0}};
    cr_expect_eq(agreement_decode(buffer_slice(&body), &out, &why), 0);
    cr_expect_eq(out.index, report.index);
    cr_expect_eq(out.digest, report.digest);
    for (size_t size = 0; size < body.size; size++) {
        cr_expect_eq(agreement_decode(slice_of(body.data, size), &out, &why), LKV_EPROTOCOL);
        cr_expect_not_null(strstr(why.text, "expected 16"), "%s", why.text);
    }
    const uint8_t nothing[16] = {0}; /* there is no entry 0 */
    cr_expect_eq(agreement_decode(slice_of(nothing, 16), &out, &why), LKV_EPROTOCOL);
    buffer_fini(&body);
}
