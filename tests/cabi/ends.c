/* Engines destroyed and jobs cancelled at awkward moments: during load, prefill and generation, after 0 to 100 ms.
 * Argument: rounds per moment. */
#include "tap.h"

static const int delays_ms[] = {0, 1, 10, 100};
enum { DELAYS = sizeof delays_ms / sizeof delays_ms[0] };

enum phase { LOAD, PREFILL, GENERATION };
static const char *const phase_names[] = {"load", "prefill", "generation"};

static char story[12000], request[16384], event[1 << 16];
static double slowest;

static void timed(double start) {
    double took = now_ms() - start;
    if (took > slowest) slowest = took;
}

/* Bring an engine into a phase; returns its job, or 0 for LOAD. */
static int64_t enter(atelico_engine *engine, enum phase phase) {
    int64_t job;
    if (phase == LOAD) {
        atelico_load_model(engine, MODEL);
        return 0;
    }
    request_for(request, sizeof request, MODEL, phase == PREFILL ? story : "Hello", 500, "");
    job = atelico_chat_begin(engine, request);
    /* The first chunk comes with the first token, when the prefill is over. */
    if (phase == GENERATION) wait_event(engine, job, event, sizeof event);
    return job;
}

static int destroyed(enum phase phase, int delay_ms) {
    atelico_engine *engine = atelico_create(CONFIG);
    if (phase == PREFILL) {
        atelico_load_model(engine, MODEL);
        wait_model(engine, MODEL);
    }
    int64_t job = enter(engine, phase);
    sleep_ms(delay_ms);
    double start = now_ms();
    atelico_destroy(engine);
    timed(start);
    return atelico_chat_poll(engine, job, event, sizeof event) == ATELICO_INVALID_HANDLE;
}

static int cancelled(atelico_engine *engine, enum phase phase, int delay_ms) {
    int64_t job = enter(engine, phase);
    sleep_ms(delay_ms);
    double start = now_ms();
    int accepted = atelico_chat_cancel(engine, job) == ATELICO_OK;
    timed(start);
    return accepted && drain(engine, job, event, sizeof event) > 0 && strstr(event, "\"finish_reason\":") != NULL;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    char statement[128];
    for (int i = 0; i < 500; i++) memcpy(story + i * 6, " stone", 6);
    for (int phase = LOAD; phase <= GENERATION; phase++) {
        for (int i = 0; i < DELAYS; i++) {
            int good = 0;
            for (int round = 0; round < rounds; round++) good += destroyed((enum phase)phase, delays_ms[i]);
            snprintf(statement, sizeof statement, "destroyed %d ms into %s", delays_ms[i], phase_names[phase]);
            check(good == rounds, statement);
        }
    }
    atelico_engine *engine = atelico_create(CONFIG);
    for (int phase = PREFILL; phase <= GENERATION; phase++) {
        for (int i = 0; i < DELAYS; i++) {
            int good = 0;
            for (int round = 0; round < rounds; round++) good += cancelled(engine, (enum phase)phase, delays_ms[i]);
            snprintf(statement, sizeof statement, "cancelled %d ms into %s", delays_ms[i], phase_names[phase]);
            check(good == rounds, statement);
        }
    }
    request_for(request, sizeof request, MODEL, "Hello", 3, "");
    check(atelico_chat_completion(engine, request, event, sizeof event) > 0, "the next request works");
    atelico_destroy(engine);
    printf("# slowest destroy or cancel call %.3f ms\n", slowest);
    check(slowest < 200, "destroy and cancel are bounded");
    return tap_end();
}
