/* A game loop that never waits: load behind a progress bar, begin, poll once a frame. */
#include "atelico.h"

#include <stdio.h>
#include <time.h>

static const char model[] = "SmolLM2-135M-Instruct";
static const char request[] =
    "{\"model\": \"SmolLM2-135M-Instruct\", \"max_tokens\": 24, \"temperature\": 0,"
    " \"messages\": [{\"role\": \"user\", \"content\": \"What is behind the old door?\"}]}";

static void sleep_to_next_frame(void) {
    struct timespec frame = {0, 16666667};
    nanosleep(&frame, NULL); /* a game would draw here */
}

static int fail(const char *what) {
    char why[4096];
    atelico_last_error(why, sizeof why);
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

int main(void) {
    static char text[65536];
    long frames = 0;
    float share;
    int32_t state;

    atelico_engine *engine = atelico_create(NULL);
    if (engine == NULL) return fail("create");

    if (atelico_load_model(engine, model) != ATELICO_OK) return fail("load");
    while ((state = atelico_model_state(engine, model, &share)) == ATELICO_MODEL_LOADING) {
        if (frames++ % 30 == 0) printf("loading %3.0f %%\n", (double)share * 100);
        sleep_to_next_frame();
    }
    if (state != ATELICO_MODEL_READY) return fail("load");

    int64_t job = atelico_chat_begin(engine, request);
    if (job < 0) return fail("begin");
    while (job > 0) {
        /* Several events may have come since the last frame. */
        int32_t n;
        while ((n = atelico_chat_poll(engine, job, text, sizeof text)) >= 0) {
            if (n < (int32_t)sizeof text) printf("frame %ld: %s\n", frames, text);
            else return fail("an event needs a larger buffer");
        }
        if (n == ATELICO_DONE) job = 0;
        else if (n != ATELICO_EMPTY) return fail("poll");
        frames++;
        sleep_to_next_frame();
    }
    atelico_destroy(engine);
    return 0;
}
