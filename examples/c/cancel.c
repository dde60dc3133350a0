/* The player walks away: stop an answer, keep what was said. */
#include "atelico.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char request[] =
    "{\"model\": \"SmolLM2-135M-Instruct\", \"max_tokens\": 800,"
    " \"messages\": [{\"role\": \"user\", \"content\": \"Tell me the whole history of the kingdom.\"}]}";

int main(void) {
    static char event[65536];
    struct timespec pause = {0, 5000000};
    int chunks = 0, was_cancelled = 0;
    int32_t n;
    atelico_engine *engine = atelico_create(NULL);
    int64_t job = atelico_chat_begin(engine, request);
    if (job < 0) return 1;

    while ((n = atelico_chat_poll(engine, job, event, sizeof event)) != ATELICO_DONE) {
        if (n == ATELICO_EMPTY) {
            nanosleep(&pause, NULL);
            continue;
        }
        if (n < 0) return 1;
        if (++chunks == 5) atelico_chat_cancel(engine, job);
        /* A cancelled job is polled to its end like any other. */
        if (strstr(event, "\"finish_reason\":\"cancelled\"") != NULL) was_cancelled = 1;
    }
    printf("%d chunks, cancelled: %s\n", chunks, was_cancelled ? "yes" : "no");
    atelico_destroy(engine);
    return !was_cancelled;
}
