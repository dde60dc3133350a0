/* The process exits at an awkward moment, with engines alive: it ends with 0 all the same.
 * Arguments: "start", "load", "generate" or "destroy", milliseconds to wait in it, and the thread that then exits: "main"
 * or "other". */
#include "tap.h"

#include <pthread.h>

static char **arguments;

static void *leave(void *unused) {
    static char request[1024], event[1 << 16];
    const char *moment = arguments[1];
    (void)unused;
    atelico_engine *engine = atelico_create(CONFIG);
    if (strcmp(moment, "load") == 0) {
        atelico_load_model(engine, MODEL);
    } else if (strcmp(moment, "start") != 0) {
        int64_t job = atelico_chat_begin(engine, request_for(request, sizeof request, MODEL, "Hello", 500, ""));
        if (wait_event(engine, job, event, sizeof event) < 0) exit(3);
    }
    sleep_ms(atoi(arguments[2]));
    if (strcmp(moment, "destroy") == 0) atelico_destroy(engine);
    exit(0);
}

int main(int argc, char **argv) {
    pthread_t other;
    if (argc != 4) return 2;
    arguments = argv;
    if (strcmp(argv[3], "other") == 0 && pthread_create(&other, NULL, leave, NULL) == 0) pthread_join(other, NULL);
    leave(NULL);
    return 4;
}
