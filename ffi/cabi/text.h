/* Text that crosses the interface: UTF-8 checks, buffers of the caller, the last error of a thread. */

#ifndef ATELICO_TEXT_H
#define ATELICO_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* The offset of the first byte of `text` that is not UTF-8 (RFC 3629: no overlong forms, no surrogates), or -1. */
int64_t text_bad_utf8(const char *text, size_t length);

/* The length of `text`, or `limit` + 1 where it is longer than `limit`; reads no further. */
size_t text_length(const char *text, size_t limit);

/* Whether `buf` and `buf_len` describe a buffer: not negative, and NULL only with 0. */
int text_is_buffer(const char *buf, int32_t buf_len);

/* Whether `length` bytes and a NUL fit; `buf` is filled then and empty otherwise. */
int text_deliver(const char *text, size_t length, char *buf, int32_t buf_len);

/* A copy of `length` bytes with a NUL, or NULL without memory. */
char *text_copy(const char *text, size_t length);

/* Remember what went wrong for atelico_last_error of this thread; cut to what fits, never inside a character.
 * Returns `result`, so that a failing function can end with it. */
int32_t text_fail(int32_t result, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 2, 3)))
#endif
    ;

/* What text_fail remembered in this thread; "" at first. */
const char *text_last_error(void);

#endif
