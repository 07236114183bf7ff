/* The text of a transaction, as kvctl txn takes it. */
#ifndef CLI_TXN_TEXT_H
#define CLI_TXN_TEXT_H

#include "cli.h"

/* Adds what the text says; false, with a sentence that names the line in `why`, when it says nothing that
 * can be understood. */
bool txn_text_read(struct lkv_bytes text, struct lkv_txn *txn, struct text *why);

#endif
