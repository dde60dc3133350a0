/* Eight threads do everything at once to a few engines that others destroy under them, against the stub host: nothing
 * is asserted about answers but their form; the sanitizers watch the rest. Argument: rounds per thread. */
#include "tap.h"

#include <pthread.h>

enum { THREADS = 8, ENGINES = 6 };

static atelico_engine *engines[ENGINES];
static pthread_mutex_t engines_lock = PTHREAD_MUTEX_INITIALIZER;
static int rounds = 1000;

static unsigned next_random(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static atelico_engine *some_engine(unsigned *random, atelico_engine *replacement, int replace) {
    unsigned slot = next_random(random) % ENGINES;
    pthread_mutex_lock(&engines_lock);
    atelico_engine *engine = engines[slot];
    if (replace) engines[slot] = replacement;
    pthread_mutex_unlock(&engines_lock);
    return engine;
}

static int is_result(int64_t n) { return n == ATELICO_INTERNAL || n >= ATELICO_SHUTTING_DOWN; }

static int poll_to_end(atelico_engine *engine, int64_t job, unsigned *random) {
    char buf[64];
    int32_t n;
    for (int i = 0; i < 2000; i++) {
        int32_t size = (int32_t)(next_random(random) % sizeof buf);
        n = atelico_chat_poll(engine, job, buf, size);
        if (n >= 0 && n < size && strlen(buf) != (size_t)n) return 0;
        if (n == ATELICO_DONE || n == ATELICO_INVALID_HANDLE) return 1;
        if (n < 0 && n != ATELICO_EMPTY) return 0;
        if (next_random(random) % 50 == 0) atelico_chat_cancel(engine, job);
    }
    return 1;
}

static int one_round(unsigned *random) {
    static const char *const requests[] = {"{\"echo\": true}", "fail", "slow", "{\"echo\": \"\xf0\x9f\x8e\xae\"}", "\xff", ""};
    const char *request = requests[next_random(random) % 6];
    char buf[64];
    float progress;
    atelico_engine *engine = some_engine(random, NULL, 0);
    int64_t n = 0;
    switch (next_random(random) % 9) {
        case 0:
            engine = some_engine(random, atelico_create(next_random(random) % 4 ? NULL : "bad"), 1);
            atelico_destroy(engine);
            break;
        case 1: n = atelico_load_model(engine, request); break;
        case 2: n = atelico_model_state(engine, request, &progress); break;
        case 3:
            if (strcmp(request, "slow") != 0) n = atelico_chat_completion(engine, request, buf, (int32_t)(*random % 64));
            break;
        case 4: n = atelico_chat_cancel(engine, 1 + next_random(random) % 1000); break;
        case 5: n = atelico_last_error(buf, sizeof buf); break;
        default:
            n = atelico_chat_begin(engine, request);
            if (n > 0 && next_random(random) % 8) return poll_to_end(engine, n, random);
    }
    return is_result(n);
}

static void *run(void *number) {
    unsigned random = (unsigned)(intptr_t)number * 7919u + 1u;
    int good = 0;
    for (int i = 0; i < rounds; i++) good += one_round(&random);
    return good == rounds ? number : NULL;
}

static void *wait_for_ever(void *engine) {
    static int32_t result;
    result = atelico_chat_completion((atelico_engine *)engine, "slow", NULL, 0);
    return &result;
}

int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    void *result;
    int good = 0;
    if (argc > 1) rounds = atoi(argv[1]);
    for (int i = 0; i < ENGINES; i++) engines[i] = atelico_create(NULL);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        good += result != NULL;
    }
    check(good == THREADS, "every call of every thread returned something the header knows");
    for (int i = 0; i < ENGINES; i++) atelico_destroy(engines[i]);

    atelico_engine *engine = atelico_create(NULL);
    pthread_create(&threads[0], NULL, wait_for_ever, (void *)engine);
    sleep_ms(50);
    atelico_destroy(engine);
    pthread_join(threads[0], &result);
    check(*(int32_t *)result == ATELICO_SHUTTING_DOWN, "a thread that waits is let go when the engine is destroyed");

    engine = atelico_create(NULL);
    int64_t job = atelico_chat_begin(engine, "fail");
    char event[64];
    check(wait_event(engine, job, event, sizeof event) > 0 && last_error_has("The stub failed."),
          "a failure leaves its message with the thread that polled it");
    check(wait_event(engine, job, event, sizeof event) == ATELICO_DONE, "and then the job is done");
    check(wait_model(engine, "x") == ATELICO_MODEL_NOT_FOUND && atelico_load_model(engine, "x") == ATELICO_OK &&
              wait_model(engine, "x") == ATELICO_MODEL_READY,
          "loading again replaces a failure");
    atelico_chat_begin(engine, "slow"); /* nobody polls it */
    atelico_destroy(engine);
    return tap_end();
}
