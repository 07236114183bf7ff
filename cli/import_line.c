/* One line of an import: see import_line.h. */
#include "import_line.h"

#include <jansson.h>
#include <stdio.h>

/* What stands under NAME, NAME_b64 or NAME_hex; exactly one of them must be there. */
static bool take_member(const json_t *object, const char *name, struct text *out,
                        struct text *why) {
    static const char *const suffixes[] = {"", "_b64", "_hex"};
    size_t found = 0;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
        char member[16];
        snprintf(member, sizeof(member), "%s%s", name, suffixes[i]);
        const json_t *json = json_object_get(object, member);
        if (json == NULL) {
            continue;
        }
        if (!json_is_string(json)) {
            text_printf(why, "\"%s\" is not a string", member);
            return false;
        }
        struct lkv_bytes text = {json_string_value(json), json_string_length(json)};
        bool good = true;
        if (i == 0) {
            text_add(out, text.data, text.size);
        } else {
            good = i == 1 ? text_decode_base64(out, text) : text_decode_hex(out, text);
        }
        if (!good) {
            text_printf(why, "\"%s\" is not %s", member, i == 1 ? "base64" : "hexadecimal");
            return false;
        }
        found++;
    }
    if (found != 1) {
        text_printf(why, found == 0 ? "there is no \"%s\"" : "there is more than one \"%s\"", name);
    }
    return found == 1;
}

bool import_line_parse(struct lkv_bytes line, struct text *key, struct text *value,
                       struct text *why) {
    text_clear(key);
    text_clear(value);
    text_clear(why);
    json_error_t error;
    json_t *object =
        json_loadb(line.data, line.size, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    if (object == NULL) {
        text_printf(why, "%s", error.text);
        return false;
    }
    bool good = json_is_object(object);
    if (!good) {
        text_add_string(why, "a JSON object with \"key\" and \"value\" is wanted");
    }
    good = good && take_member(object, "key", key, why) && take_member(object, "value", value, why);
    if (good && key->size == 0) {
        text_add_string(why, "the key is empty");
        good = false;
    }
    json_decref(object);
    return good;
}
