/* A client's call as a request of the node. */
#ifndef LIB_SERVER_CALL_H
#define LIB_SERVER_CALL_H

#include "lib/client_wire.h"
#include "lib/limits.h"
#include "lib/request.h"

/* Checks the limits and copies what the call points to. LKV_EINVAL, LKV_ETOOLARGE, LKV_EPROTOCOL (a
 * command that no node could apply), LKV_EVERSION, LKV_ENOMEM, with the reason. The cost is what it
 * may occupy until its reply has left. Not for WIRE_PING. */
MUST_USE int server_call_request(const struct wire_call *call, const struct limits *limits,
                                 struct request **out, struct reason *why);

#endif
