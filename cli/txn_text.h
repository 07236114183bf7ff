/* The text of a transaction, as kvctl txn takes it. */
#ifndef CLI_TXN_TEXT_H
#define CLI_TXN_TEXT_H

#include "bytes.h"

/* Adds what the text says to `txn`; false, with a sentence in `why` that names the line, what was expected
 * and what was found, when it says nothing that can be understood: then `txn` holds a part of it. */
bool txn_text_read(struct lkv_bytes text, struct lkv_txn *txn, struct text *why);

#endif
