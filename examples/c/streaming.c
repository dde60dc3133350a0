/* Show the text of an answer while it is made. The events are JSON; a game has a parser for it, this example only looks
 * for the one field it shows. */
#include "atelico.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char request[] =
    "{\"model\": \"SmolLM2-135M-Instruct\", \"max_tokens\": 48, \"temperature\": 0,"
    " \"speculative\": {\"proposer\": \"prompt_lookup\", \"k\": 5},"
    " \"messages\": [{\"role\": \"user\", \"content\": \"Repeat: the key lies under the stone near the bridge.\"}]}";

/* Print the string after "content": as it stands, with its JSON escapes. */
static void print_content(const char *event) {
    static const char field[] = "\"content\":\"";
    const char *at = strstr(event, field);
    if (at == NULL) return;
    for (at += sizeof field - 1; *at != '\0' && *at != '"'; at++) {
        if (*at == '\\' && at[1] != '\0') putchar(*at++);
        putchar(*at);
    }
    fflush(stdout);
}

int main(void) {
    static char event[65536];
    struct timespec pause = {0, 5000000};
    int failed = 0;
    atelico_engine *engine = atelico_create(NULL);
    int64_t job = atelico_chat_begin(engine, request);
    if (job < 0) failed = 1;
    while (!failed) {
        int32_t n = atelico_chat_poll(engine, job, event, sizeof event);
        if (n == ATELICO_DONE) break;
        if (n == ATELICO_EMPTY) {
            nanosleep(&pause, NULL);
        } else if (n < 0 || strncmp(event, "{\"error\"", 8) == 0) {
            failed = 1; /* atelico_last_error has the message of both */
        } else {
            print_content(event);
        }
    }
    putchar('\n');
    if (failed) {
        atelico_last_error(event, sizeof event);
        fprintf(stderr, "%s\n", event);
    }
    atelico_destroy(engine);
    return failed;
}
