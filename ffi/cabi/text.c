/* See text.h. */

#include "text.h"

#include "os.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static OS_THREAD_LOCAL char last_error[4096];

/* The length of the UTF-8 sequence at `at`, or 0 where there is none. The table is RFC 3629, section 4. */
static size_t sequence_length(const unsigned char *at, size_t left) {
    size_t length;
    unsigned char low = 0x80, high = 0xBF; /* of the second byte */
    if (at[0] < 0x80) return 1;
    if (at[0] >= 0xC2 && at[0] <= 0xDF) {
        length = 2;
    } else if (at[0] >= 0xE0 && at[0] <= 0xEF) {
        length = 3;
        if (at[0] == 0xE0) low = 0xA0;
        if (at[0] == 0xED) high = 0x9F;
    } else if (at[0] >= 0xF0 && at[0] <= 0xF4) {
        length = 4;
        if (at[0] == 0xF0) low = 0x90;
        if (at[0] == 0xF4) high = 0x8F;
    } else {
        return 0;
    }
    if (left < length || at[1] < low || at[1] > high) return 0;
    for (size_t i = 2; i < length; i++)
        if (at[i] < 0x80 || at[i] > 0xBF) return 0;
    return length;
}

int64_t text_bad_utf8(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    size_t i = 0;
    while (i < length) {
        uint64_t eight;
        /* Eight ASCII bytes at a time: a request of megabytes is checked on the game's thread. */
        while (length - i >= sizeof eight) {
            memcpy(&eight, bytes + i, sizeof eight);
            if (eight & UINT64_C(0x8080808080808080)) break;
            i += sizeof eight;
        }
        if (i == length) break;
        size_t step = sequence_length(bytes + i, length - i);
        if (step == 0) return (int64_t)i;
        i += step;
    }
    return -1;
}

size_t text_length(const char *text, size_t limit) {
    const char *end = memchr(text, '\0', limit + 1);
    return end == NULL ? limit + 1 : (size_t)(end - text);
}

int text_is_buffer(const char *buf, int32_t buf_len) { return buf_len >= 0 && (buf != NULL || buf_len == 0); }

int text_deliver(const char *text, size_t length, char *buf, int32_t buf_len) {
    int fits = buf_len > 0 && length < (size_t)buf_len;
    if (fits) memcpy(buf, text, length);
    if (buf_len > 0) buf[fits ? length : 0] = '\0';
    return fits;
}

char *text_copy(const char *text, size_t length) {
    char *copy = malloc(length + 1);
    if (copy == NULL) return NULL;
    if (length > 0) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

int32_t text_fail(int32_t result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    size_t length = strlen(last_error);
    int64_t cut = text_bad_utf8(last_error, length);
    if (cut >= 0) last_error[cut] = '\0';
    return result;
}

const char *text_last_error(void) { return last_error; }
