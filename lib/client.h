/* The handle of lkv_connect: a client of the nodes in the option "endpoints". */
#ifndef LIB_CLIENT_H
#define LIB_CLIENT_H

#include "lib/handle.h"

MUST_USE int client_open(struct lkv **out, const struct lkv_options *options, struct reason *why);

#endif
