/* atelico-home.txt: where the interpreter of this libatelico is. Nothing here starts it. */

#ifndef ATELICO_HOME_H
#define ATELICO_HOME_H

#include "host.h"

/* Read `folder`/atelico-home.txt: lines "key=value", '#' for comments. Keys: libpython, host, executable, prefix,
 * base_prefix, and path, once per entry. Relative values start at `folder`. NULL: failed, and `why` says why. */
struct host_home *home_read(const char *folder, char *why, size_t why_size);

void home_free(struct host_home *home);

#endif
