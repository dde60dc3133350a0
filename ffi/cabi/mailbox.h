/* The mailbox: requests of the game in, events of its jobs out, and the state of engines and models. Plain C under one
 * lock that is only ever held for a few list operations; nothing here knows Python. Callers check arguments first.
 *
 * Functions return results of atelico.h and leave a message with text_fail() where they fail. */

#ifndef ATELICO_MAILBOX_H
#define ATELICO_MAILBOX_H

#include "host.h"

#include <stddef.h>
#include <stdint.h>

/* The game's side. `handle` is any number; unknown ones are ATELICO_INVALID_HANDLE. */

/* A new engine's handle, or 0 where it failed. The first one starts the host. */
int64_t mailbox_create(const char *config, size_t length);
void mailbox_destroy(int64_t handle);
int32_t mailbox_load(int64_t handle, const char *name, size_t length);
int32_t mailbox_model_state(int64_t handle, const char *name, size_t length, float *progress);
int64_t mailbox_begin(int64_t handle, const char *request, size_t length);
int32_t mailbox_poll(int64_t handle, int64_t job, char *buf, int32_t buf_len);
int32_t mailbox_cancel(int64_t handle, int64_t job);
/* Begin and wait. `thread` tells callers apart: an answer that does not fit is kept for that thread and request. */
int32_t mailbox_complete(int64_t handle, const void *thread, const char *request, size_t length, char *buf,
                         int32_t buf_len);

/* To be called on threads that may call exit(), so that it stops us before it does anything else. */
void mailbox_guard_thread(void);

/* The host's side. */

const struct host_calls *mailbox_host_calls(void);

/* The host could not start: everything that waits ends in ATELICO_INIT_FAILED; the next engine starts it again. */
void mailbox_host_failed(const char *why);

#endif
