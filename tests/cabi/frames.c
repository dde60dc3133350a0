/* A 60 Hz loop during start-up, loading and generation: how long each call keeps the game's thread.
 * Prints one line "name longest_ms calls" per function; the judgement is the caller's. */
#include "tap.h"

enum call { CREATE, LOAD, STATE, BEGIN, POLL, CANCEL, DESTROY, CALLS };
static const char *const names[] = {"create", "load_model", "model_state", "chat_begin", "chat_poll", "chat_cancel",
                                    "destroy"};
static double longest[CALLS];
static long counts[CALLS];

static double begun;
static void start(void) { begun = now_ms(); }

static void stop(enum call call) {
    double took = now_ms() - begun;
    counts[call]++;
    if (took > longest[call]) longest[call] = took;
}

int main(void) {
    static char request[2048], event[1 << 16];
    int64_t job = 0;
    int32_t state = ATELICO_MODEL_LOADING, n = 0;
    int finished = 0;
    start();
    atelico_engine *engine = atelico_create(CONFIG);
    stop(CREATE);
    start();
    atelico_load_model(engine, MODEL);
    stop(LOAD);
    request_for(request, sizeof request, MODEL, "Make a character.", 120,
                ", \"speculative\": {\"proposer\": \"auto\"}, \"response_format\": {\"type\": \"json_schema\", "
                "\"json_schema\": {\"name\": \"c\", \"schema\": {\"type\": \"object\", \"properties\": {\"name\": "
                "{\"type\": \"string\"}, \"hp\": {\"type\": \"integer\"}}, \"required\": [\"name\", \"hp\"]}}}");
    double until = now_ms() + 60e3;
    while (finished < 3 && now_ms() < until) {
        start();
        state = atelico_model_state(engine, MODEL, NULL);
        stop(STATE);
        if (job == 0 && state == ATELICO_MODEL_READY) {
            start();
            job = atelico_chat_begin(engine, request);
            stop(BEGIN);
        }
        while (job > 0) {
            start();
            n = atelico_chat_poll(engine, job, event, sizeof event);
            stop(POLL);
            if (n < 0) break;
        }
        if (n == ATELICO_DONE) {
            n = 0;
            job = 0;
            finished++;
        }
        sleep_ms(16);
    }
    job = atelico_chat_begin(engine, request);
    start();
    atelico_chat_cancel(engine, job);
    stop(CANCEL);
    start();
    atelico_destroy(engine);
    stop(DESTROY);
    for (int i = 0; i < CALLS; i++) printf("%s %.3f %ld\n", names[i], longest[i], counts[i]);
    return finished == 3 ? 0 : 1;
}
