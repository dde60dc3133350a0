/* The functions of atelico.h: arguments are checked here, the work is the mailbox's. */

#define ATELICO_BUILD

#include "atelico.h"

#include "mailbox.h"
#include "os.h"
#include "text.h"

#include <string.h>

/* As sdk/atelico/protocol; the texts are checked before anything is copied. */
enum { MAX_REQUEST = 16 << 20, MAX_CONFIG = 1 << 20, MAX_NAME = 4096 };

/* Its address is another one in every living thread. */
static OS_THREAD_LOCAL char this_thread;

static int64_t number_of(const atelico_engine *engine) { return (int64_t)(intptr_t)engine; }

/* Check a text that came in; its length goes to `length`. `too_long` is the result for one over `limit`. */
static int32_t check_text(const char *what, const char *text, size_t limit, int32_t too_long, size_t *length) {
    if (text == NULL) return text_fail(ATELICO_INVALID_ARGUMENT, "%s is NULL.", what);
    *length = text_length(text, limit);
    if (*length > limit) return text_fail(too_long, "%s has more than %u bytes.", what, (unsigned)limit);
    int64_t bad = text_bad_utf8(text, *length);
    if (bad >= 0)
        return text_fail(ATELICO_INVALID_ARGUMENT, "%s is not valid UTF-8 at byte %lld. Convert it first.", what,
                         (long long)bad);
    return ATELICO_OK;
}

static int32_t check_buffer(const char *buf, int32_t buf_len) {
    if (text_is_buffer(buf, buf_len)) return ATELICO_OK;
    if (buf_len < 0) return text_fail(ATELICO_INVALID_ARGUMENT, "buf_len is negative.");
    return text_fail(ATELICO_INVALID_ARGUMENT, "buf is NULL, but buf_len is not 0.");
}

int32_t atelico_abi_version(void) { return ATELICO_ABI_VERSION; }

const char *atelico_version(void) { return ATELICO_VERSION; }

atelico_engine *atelico_create(const char *config_json) {
    size_t length = 0;
    if (config_json == NULL) config_json = "";
    if (check_text("config_json", config_json, MAX_CONFIG, ATELICO_INVALID_ARGUMENT, &length) < 0) return NULL;
    mailbox_guard_thread();
    return (atelico_engine *)(intptr_t)mailbox_create(config_json, length);
}

void atelico_destroy(atelico_engine *engine) { mailbox_destroy(number_of(engine)); }

int32_t atelico_load_model(atelico_engine *engine, const char *model) {
    size_t length = 0;
    int32_t result = check_text("model", model, MAX_NAME, ATELICO_INVALID_ARGUMENT, &length);
    return result == ATELICO_OK ? mailbox_load(number_of(engine), model, length) : result;
}

int32_t atelico_model_state(atelico_engine *engine, const char *model, float *progress) {
    size_t length = 0;
    if (progress != NULL) *progress = 0.0f;
    int32_t result = check_text("model", model, MAX_NAME, ATELICO_INVALID_ARGUMENT, &length);
    return result == ATELICO_OK ? mailbox_model_state(number_of(engine), model, length, progress) : result;
}

int32_t atelico_chat_completion(atelico_engine *engine, const char *request_json, char *buf, int32_t buf_len) {
    size_t length = 0;
    int32_t result = check_buffer(buf, buf_len);
    if (result != ATELICO_OK) return result;
    if (buf_len > 0) buf[0] = '\0';
    result = check_text("request_json", request_json, MAX_REQUEST, ATELICO_INVALID_JSON, &length);
    if (result != ATELICO_OK) return result;
    return mailbox_complete(number_of(engine), &this_thread, request_json, length, buf, buf_len);
}

int64_t atelico_chat_begin(atelico_engine *engine, const char *request_json) {
    size_t length = 0;
    mailbox_guard_thread();
    int32_t result = check_text("request_json", request_json, MAX_REQUEST, ATELICO_INVALID_JSON, &length);
    return result == ATELICO_OK ? mailbox_begin(number_of(engine), request_json, length) : result;
}

int32_t atelico_chat_poll(atelico_engine *engine, int64_t job, char *buf, int32_t buf_len) {
    int32_t result = check_buffer(buf, buf_len);
    if (result != ATELICO_OK) return result;
    if (buf_len > 0) buf[0] = '\0';
    mailbox_guard_thread();
    return mailbox_poll(number_of(engine), job, buf, buf_len);
}

int32_t atelico_chat_cancel(atelico_engine *engine, int64_t job) { return mailbox_cancel(number_of(engine), job); }

int32_t atelico_last_error(char *buf, int32_t buf_len) {
    if (!text_is_buffer(buf, buf_len)) return ATELICO_INVALID_ARGUMENT;
    const char *message = text_last_error();
    size_t length = strlen(message);
    text_deliver(message, length, buf, buf_len);
    return (int32_t)length;
}
