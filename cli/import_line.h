/* One line of an import: a JSON object with a key and a value. */
#ifndef CLI_IMPORT_LINE_H
#define CLI_IMPORT_LINE_H

#include "bytes.h"

/* {"key":TEXT,"value":TEXT}; for bytes that are no text key_b64, value_b64, key_hex or value_hex.
 * Other members are ignored, so that an answer of `get -o json` can be imported. False with *why set
 * when it is none; the texts are emptied first. */
bool import_line_parse(struct lkv_bytes line, struct text *key, struct text *value,
                       struct text *why);

#endif
