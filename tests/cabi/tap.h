/* What the C tests share: statements in TAP ("ok 1 - ..."), time, and waiting for a job. */

#ifndef TAP_H
#define TAP_H

#include "atelico.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MODEL "SmolLM2-135M-Instruct"
#define CONFIG "{\"n_ctx\": 1024, \"n_threads\": 1}"

static int tap_count, tap_failed;

#define check(condition, statement) tap_check((condition) ? 1 : 0, statement, __LINE__)

/* The last error follows a failed statement, since it mostly says why. */
static inline void tap_check(int holds, const char *statement, int line) {
    printf("%sok %d - %s\n", holds ? "" : "not ", ++tap_count, statement);
    if (!holds) {
        char why[4096];
        atelico_last_error(why, sizeof why);
        printf("# line %d; last error: %s\n", line, why);
        tap_failed++;
    }
    fflush(stdout);
}

static inline int tap_end(void) {
    printf("1..%d\n", tap_count);
    return tap_failed != 0;
}

static inline double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static inline void sleep_ms(int ms) {
    struct timespec span;
    span.tv_sec = ms / 1000;
    span.tv_nsec = (long)(ms % 1000) * 1000000L;
    nanosleep(&span, NULL);
}

/* A request for `model`; `more` is inserted as it is and starts with a comma where it is not empty. */
static inline const char *request_for(char *out, size_t size, const char *model, const char *content, int max_tokens,
                                      const char *more) {
    snprintf(out, size,
             "{\"model\": \"%s\", \"max_tokens\": %d, \"temperature\": 0, "
             "\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}]%s}",
             model, max_tokens, content, more);
    return out;
}

/* Poll until something else than ATELICO_EMPTY comes, for at most a minute. */
static inline int32_t wait_event(atelico_engine *engine, int64_t job, char *buf, int32_t buf_len) {
    double until = now_ms() + 60e3;
    int32_t n;
    while ((n = atelico_chat_poll(engine, job, buf, buf_len)) == ATELICO_EMPTY && now_ms() < until) sleep_ms(2);
    return n;
}

/* Poll to ATELICO_DONE; `last` receives the last event. Returns the number of events, or a negative result. */
static inline int32_t drain(atelico_engine *engine, int64_t job, char *last, int32_t last_len) {
    int32_t count = 0, n;
    char *event = (char *)malloc(1 << 16);
    if (last_len > 0) last[0] = '\0';
    while ((n = wait_event(engine, job, event, 1 << 16)) >= 0) {
        count++;
        if (n < last_len) memcpy(last, event, (size_t)n + 1);
    }
    free(event);
    return n == ATELICO_DONE ? count : n;
}

/* Ask until the model is neither unknown nor loading, for at most a minute. */
static inline int32_t wait_model(atelico_engine *engine, const char *model) {
    double until = now_ms() + 60e3;
    int32_t state;
    do {
        state = atelico_model_state(engine, model, NULL);
        if (state < 0 || state == ATELICO_MODEL_READY) break;
        sleep_ms(5);
    } while (now_ms() < until);
    return state;
}

static inline int last_error_has(const char *words) {
    char why[4096];
    atelico_last_error(why, sizeof why);
    return strstr(why, words) != NULL;
}

#endif
