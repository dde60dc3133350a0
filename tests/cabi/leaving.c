/* The process exits at an awkward moment, with engines alive: it ends with 0 all the same.
 * Arguments: "start", "load", "generate" or "destroy", and milliseconds to wait in it. */
#include "tap.h"

int main(int argc, char **argv) {
    static char request[1024], event[1 << 16];
    if (argc != 3) return 2;
    atelico_engine *engine = atelico_create(CONFIG);
    if (strcmp(argv[1], "start") != 0) {
        if (strcmp(argv[1], "load") == 0) {
            atelico_load_model(engine, MODEL);
            /* Loading begins when the interpreter runs. */
            float progress = 0;
            double until = now_ms() + 30e3;
            while (progress == 0.0f && now_ms() < until)
                if (atelico_model_state(engine, MODEL, &progress) != ATELICO_MODEL_LOADING) break;
        } else {
            int64_t job = atelico_chat_begin(engine, request_for(request, sizeof request, MODEL, "Hello", 500, ""));
            if (wait_event(engine, job, event, sizeof event) < 0) return 3;
        }
    }
    sleep_ms(atoi(argv[2]));
    if (strcmp(argv[1], "destroy") == 0) atelico_destroy(engine);
    return 0;
}
