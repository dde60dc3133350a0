/* Answers requests: one line of JSON in, one line of JSON out. */
#include "tap.h"

int main(void) {
    static char request[1 << 16], answer[1 << 18];
    atelico_engine *engine = atelico_create(CONFIG);
    while (fgets(request, sizeof request, stdin) != NULL) {
        if (atelico_chat_completion(engine, request, answer, sizeof answer) < 0) atelico_last_error(answer, sizeof answer);
        puts(answer);
    }
    atelico_destroy(engine);
    return 0;
}
