#!/usr/bin/env python3
"""Plants a violation of each house rule in an empty tree and checks that check.py catches it, and
beside it something similar that is allowed."""

import os
import sys
import tempfile
import unittest

import check


def body(lines: int) -> str:
    return "int f(void) {\n" + "    g();\n" * (lines - 2) + "}\n"


class Planted(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def found(self, rule: str, files: dict[str, str]) -> list[str]:
        for path, text in files.items():
            full = os.path.join(self.folder.name, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        listed = check.list_files(self.folder.name)
        return [str(v) for v in check.RULES[rule](self.folder.name, listed)]

    def assert_caught(self, rule: str, path: str, text: str, line: int = 1) -> None:
        violations = self.found(rule, {path: text})
        self.assertEqual(len(violations), 1, violations)
        self.assertTrue(violations[0].startswith(f"{path}:{line}: "), violations)

    def assert_allowed(self, rule: str, path: str, text: str) -> None:
        self.assertEqual(self.found(rule, {path: text}), [])


class Arrows(Planted):
    def test_an_empty_tree_has_no_violation(self) -> None:
        for rule in check.RULES:
            self.assertEqual(self.found(rule, {}), [])

    def test_siblings_do_not_know_each_other(self) -> None:
        for room in ("raft", "log", "kv"):
            for other in {"raft", "log", "kv"} - {room}:
                with self.subTest(room=room, other=other):
                    self.setUp()
                    self.assert_caught("arrows", f"{room}/a.c", f'#include "{other}/b.h"\n')

    def test_nothing_reaches_up(self) -> None:
        for path, include in (("base/a.c", "log/b.h"), ("base/a.h", "lib/b.h"), ("kv/a.c", "lib/b.h"),
                              ("raft/a.c", "cli/b.h"), ("lib/a.c", "cli/b.h"), ("lib/uv/a.c", "log/b.h"),
                              ("lib/uv/a.c", "raft/b.h"), ("log/a.c", "lib/uv/b.h"), ("lib/a.c", "tests/sim/b.h")):
            with self.subTest(path=path, include=include):
                self.setUp()
                self.assert_caught("arrows", path, f'// first\n#include "{include}"\n', line=2)

    def test_the_arrows_of_the_design_are_allowed(self) -> None:
        for path, include in (("raft/a.c", "base/b.h"), ("raft/a.c", "raft/b.h"), ("lib/a.c", "kv/b.h"),
                              ("lib/a.c", "lib/uv/b.h"), ("lib/uv/a.c", "base/b.h"), ("lib/uv/a.c", "lib/b.h"),
                              ("tests/unit/kv/a.c", "kv/b.h"), ("lib/a.c", "ledgerkv.h"), ("kv/a.c", "ledgerkv_errors.h")):
            with self.subTest(path=path, include=include):
                self.setUp()
                self.assert_allowed("arrows", path, f'#include "{include}"\n')

    def test_detours_are_seen(self) -> None:
        for include in ('"../log/b.h"', "<log/b.h>", '"base/../log/b.h"', '"ledgerkv.h"', "<ledgerkv.h>"):
            with self.subTest(include=include):
                self.setUp()
                self.found("arrows", {"log/b.h": "", "lib/ledgerkv.h": ""})
                self.assert_caught("arrows", "raft/a.c", f"#include {include}\n")

    def test_a_macro_as_include_is_refused(self) -> None:
        self.assert_caught("arrows", "raft/a.c", "#include HEADER\n")

    def test_an_include_in_a_comment_is_not_one(self) -> None:
        self.assert_allowed("arrows", "raft/a.c", '/*\n#include "log/b.h"\n*/\n// #include "kv/b.h"\n')

    def test_a_line_comment_goes_on_after_a_backslash(self) -> None:
        self.assert_allowed("arrows", "raft/a.c", '// see \\\n#include "log/b.h"\n')

    def test_a_stranger_sees_only_what_is_installed(self) -> None:
        for path in ("cli/a.c", "examples/a.c"):
            with self.subTest(path=path):
                self.setUp()
                self.assert_allowed("arrows", path, "#include <ledgerkv.h>\n#include <ledgerkv_errors.h>\n")
                self.assert_caught("arrows", path, '#include "lib/node.h"\n')
                self.assert_caught("arrows", path, '#include "base/blob.h"\n')

    def test_uv_stays_in_lib_uv(self) -> None:
        self.assert_allowed("arrows", "lib/uv/loop.c", "#include <uv.h>\n")
        self.assert_caught("arrows", "lib/node.c", "#include <uv.h>\n")

    def test_msgpack_stays_in_the_codecs(self) -> None:
        for path in ("raft/wire.c", "raft/wire_append.c", "kv/command.c", "kv/image_codec.c", "lib/client_wire.c"):
            with self.subTest(path=path):
                self.assert_allowed("arrows", path, "#include <msgpack.h>\n")
        self.assert_caught("arrows", "kv/store.c", "#include <msgpack.h>\n")

    def test_rocksdb_stays_in_one_file(self) -> None:
        self.assert_allowed("arrows", "kv/rocksdb/engine.c", "#include <rocksdb/c.h>\n")
        self.assert_allowed("arrows", "bench/maps.c", "#include <rocksdb/c.h>\n")
        self.assertEqual(len(self.found("arrows", {"kv/other.c": "#include <rocksdb/c.h>\n"})), 2)


class Sizes(Planted):
    def test_files_have_a_limit(self) -> None:
        self.assert_allowed("sizes", "base/a.c", "int x;\n" * check.FILE_LINES_MAX)
        self.assert_caught("sizes", "base/a.c", "int x;\n" * (check.FILE_LINES_MAX + 1), line=check.FILE_LINES_MAX + 1)

    def test_functions_have_a_limit(self) -> None:
        self.assert_allowed("sizes", "raft/a.c", "int x;\n\n" + body(check.FUNCTION_LINES_MAX))
        self.assert_caught("sizes", "raft/a.c", "int x;\n\n" + body(check.FUNCTION_LINES_MAX + 1), line=3)

    def test_a_signature_on_several_lines_counts(self) -> None:
        text = body(check.FUNCTION_LINES_MAX).replace("int f(void) {", "int f(int a,\n      int b)\n{")
        self.assert_caught("sizes", "raft/a.c", text)

    def test_braces_in_text_do_not_hide_a_function(self) -> None:
        text = body(check.FUNCTION_LINES_MAX + 1).replace("g();", "g(\"}\", '}'); /* } */", 1)
        self.assert_caught("sizes", "raft/a.c", text)

    def test_a_table_is_not_a_function(self) -> None:
        for opening in ("static const int table[] = {", "static const struct x y = (struct x){", "enum e {"):
            with self.subTest(opening=opening):
                self.assert_allowed("sizes", "raft/a.c", opening + "\n" + "    1,\n" * 100 + "};\n")


class Braces(Planted):
    def test_every_branch_and_loop_has_them(self) -> None:
        for statement in ("if (a) b();", "if (a(b))\n        c();", "for (;;) b();", "while (a) b();", "while (a);"):
            with self.subTest(statement=statement):
                self.assert_caught("braces", "kv/a.c", f"void f(void) {{\n    {statement}\n}}\n", line=2)

    def test_else_has_them_too(self) -> None:
        self.assert_caught("braces", "kv/a.c", "void f(void) {\n if (a) {\n } else\n b();\n}\n", line=3)

    def test_proper_code_passes(self) -> None:
        self.assert_allowed("braces", "kv/a.c", "#if (A)\n#else\n#endif\nvoid f(void) {\n if (a) { // if (b) c;\n"
                            " } else if (b(c)) {\n } else {\n }\n do {\n } while (a);\n for (;;) {\n }\n}\n")


class Words(Planted):
    def test_nothing_is_left_unfinished(self) -> None:
        for word in ("TO" + "DO", "FIX" + "ME", "st" + "ub", "not " + "implemented"):
            with self.subTest(word=word):
                self.assert_caught("words", "base/a.c", f"// {word}: later\n")
                self.assert_caught("words", "base/a.c", f'f("{word}");\n')

    def test_words_that_only_look_like_it_are_allowed(self) -> None:
        self.assert_allowed("words", "base/a.c", 'char name[] = "file-XXXXXX"; // stubborn\n')

    def test_the_product_does_not_sleep(self) -> None:
        for call in ("sleep(1)", "usleep (1)", "nanosleep(&t, 0)", "uv_sleep(1)"):
            with self.subTest(call=call):
                self.assert_caught("words", "lib/a.c", f"void f(void) {{\n    {call};\n}}\n", line=2)
        self.assert_allowed("words", "lib/a.c", "// no sleep() here\nvoid disk_sleep_fake(void);\n")

    def test_tests_may_sleep(self) -> None:
        self.assert_allowed("words", "tests/unit/kv/a.c", "sleep(1);\n")

    def test_no_path_of_one_machine(self) -> None:
        for path in ("/wor" + "k/main", "/roo" + "t/x", "/roo" + "t", "/far" + "m/x"):
            with self.subTest(path=path):
                self.assert_caught("words", "docs/a.md", f"see `{path}`\n")
        self.assert_allowed("words", "docs/a.md", f"the seams clock/disk/net/work, {chr(47)}workers, a{chr(47)}root{chr(47)}b\n")


class Catalogue(Planted):
    COUNTS = "The catalogue has {} ids; tests name {} of them, {} have none.\n"

    def document(self, rows: str, counts: tuple[int, int, int]) -> dict[str, str]:
        return {"docs/TESTING.md": self.COUNTS.format(*counts) + rows}

    def assert_problem(self, files: dict[str, str], part: str) -> None:
        violations = self.found("catalogue", files)
        self.assertEqual(len(violations), 1, violations)
        self.assertIn(part, violations[0])

    def test_a_true_table_is_allowed(self) -> None:
        files = self.document("| S9 | room | `unit/a.c` |\n| X-H1 | doors | `cluster/X-H1_doors.sh` |\n"
                              "| C2 | once | `unit/a.c` |\n| M1 | members | none: later |\n", (4, 3, 1))
        files["tests/unit/a.c"] = "/* S9 */\nTest(suite, c2_is_once) {\n}\n"
        files["tests/cluster/X-H1_doors.sh"] = ""
        self.assertEqual(self.found("catalogue", files), [])

    def test_a_row_need_not_list_every_test(self) -> None:
        files = self.document("| S9 | room | `unit/a.c` |\n", (1, 1, 0))
        files["tests/unit/a.c"] = files["tests/unit/b.c"] = "/* S9 */\n"
        self.assertEqual(self.found("catalogue", files), [])

    def test_a_claim_without_its_test(self) -> None:
        self.assert_problem(self.document("| S9 | room | `unit/a.c` |\n", (1, 0, 1)), "no test names S9")

    def test_a_claim_of_another_test(self) -> None:
        files = self.document("| S9 | room | `unit/b.c` |\n", (1, 1, 0))
        files["tests/unit/a.c"] = "Test(suite, s9_room) {\n}\n"
        self.assert_problem(files, "should be: | S9 | room | `unit/a.c` |")

    def test_an_id_without_a_row(self) -> None:
        files = self.document("| S9 | room | none: later |\n", (1, 0, 1))
        files["tests/threads/a.c"] = "/* X-H2: nothing is left */\n"
        self.assert_problem(files, "names X-H2, which has no row")

    def test_wrong_counts(self) -> None:
        self.assert_problem(self.document("| S9 | room | none: later |\n", (2, 0, 1)), "should be: The catalogue")

    def test_words_that_only_look_like_ids(self) -> None:
        files = self.document("| S9 | room | none: later |\n", (1, 0, 1))
        files["tests/unit/a.c"] = "// UTF-8, x86-64, R2D2, n1, T-1\nTest(suite, leader_n1_and_s9) {\n}\n"
        self.assertEqual(self.found("catalogue", files), [])


class Workload(Planted):
    HEADER = ("LKV_API LKV_CHECK int lkv_put(struct lkv *db);\n/* LKV_API int lkv_old(void); */\n"
              "enum lkv_read { LKV_LOCAL = 3 };\n")
    ROW = "| `lkv_put`, `LKV_LOCAL` | puts | `a.c`: `SIM_PUT` |\n"

    def problems(self, rows: str) -> list[str]:
        document = f"{check.workload.BEGIN}\n| functions | what | where |\n|---|---|---|\n{rows}{check.workload.END}\n"
        return self.found("workload", {"lib/ledgerkv.h": self.HEADER, "docs/TESTING.md": document,
                                       "tests/sim/a.c": "case SIM_PUT: break;\n"})

    def assert_problem(self, rows: str, message: str) -> None:
        problems = self.problems(rows)
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(message, problems[0])

    def test_a_true_table_is_allowed(self) -> None:
        self.assertEqual(self.problems(self.ROW), [])
        self.assertEqual(self.problems("| `lkv_put`, `LKV_LOCAL` | - | none: only real ones |\n"), [])

    def test_each_function_and_flag_has_a_row(self) -> None:
        self.assert_problem(self.ROW.replace(", `LKV_LOCAL`", ""), "lacks LKV_LOCAL")
        self.assert_problem(self.ROW.replace("`lkv_put`, ", ""), "lacks lkv_put")

    def test_nothing_stands_there_twice_or_for_nothing(self) -> None:
        self.assert_problem(self.ROW + "| `lkv_put` | - | none: twice |\n", "stands in line 4 too")
        self.assert_problem(self.ROW + "| `lkv_old` | - | none: gone |\n", "lkv_old is nothing")

    def test_what_a_row_names_is_there(self) -> None:
        self.assert_problem(self.ROW.replace("SIM_PUT", "SIM_PU"), "SIM_PU is not in a.c")
        self.assert_problem(self.ROW.replace("`SIM_PUT`", "puts"), "expected a file")


if __name__ == "__main__":
    sys.exit(unittest.main())
