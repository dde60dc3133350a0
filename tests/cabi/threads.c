/* Eight threads use one engine at once, each in its own way, while it is still starting; two more engines beside it. */
#include "tap.h"

#include <pthread.h>

enum { THREADS = 8, ROUNDS = 3 };

static atelico_engine *shared;
static int finished[THREADS];

static int ask(atelico_engine *engine, int number) {
    char request[1024], content[64], answer[1 << 15];
    snprintf(content, sizeof content, "Number %d", number);
    request_for(request, sizeof request, MODEL, content, 6, "");
    return atelico_chat_completion(engine, request, answer, sizeof answer) > 0;
}

static int stream(atelico_engine *engine, int number) {
    char request[1024], content[64], last[1 << 15];
    snprintf(content, sizeof content, "Number %d", number);
    int64_t job = atelico_chat_begin(engine, request_for(request, sizeof request, MODEL, content, 6, ""));
    return job > 0 && drain(engine, job, last, sizeof last) > 1 && strstr(last, "\"finish_reason\"") != NULL;
}

static int cancel(atelico_engine *engine, int number) {
    char request[1024], last[1 << 15];
    int64_t job = atelico_chat_begin(engine, request_for(request, sizeof request, MODEL, "Go on", 500, ""));
    if (job <= 0) return 0;
    sleep_ms(number * 7 % 50);
    return atelico_chat_cancel(engine, job) == ATELICO_OK && drain(engine, job, last, sizeof last) > 0 &&
           strstr(last, "cancelled") != NULL;
}

static int engine_of_its_own(int number) {
    atelico_engine *engine = atelico_create(CONFIG);
    int works = engine != NULL && (number % 2 ? atelico_load_model(engine, MODEL) == ATELICO_OK : ask(engine, number));
    atelico_destroy(engine);
    return works;
}

static void *run(void *argument) {
    int thread = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int number = thread * 100 + round, works;
        if (thread < 3) works = ask(shared, number);
        else if (thread < 5) works = stream(shared, number);
        else if (thread < 7) works = cancel(shared, number);
        else works = engine_of_its_own(number);
        finished[thread] += works;
    }
    return NULL;
}

int main(void) {
    static const char *const statement[THREADS] = {
        "a first thread waits for answers",   "a second thread waits for answers", "a third thread waits for answers",
        "a thread polls jobs",                "another thread polls jobs",         "a thread cancels jobs",
        "another thread cancels jobs",        "a thread makes engines of its own",
    };
    pthread_t threads[THREADS];
    shared = atelico_create(CONFIG);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) check(finished[i] == ROUNDS, statement[i]);

    /* A blocking call is let go when its engine is destroyed under it. */
    atelico_destroy(shared);
    return tap_end();
}
