/* Sends the request of its first argument and prints the answer, or the error. */
#include "atelico.h"

#include <stdio.h>

int main(int argc, char **argv) {
    static char answer[1 << 20];
    atelico_engine *engine = atelico_create(NULL);
    int32_t n = argc == 2 ? atelico_chat_completion(engine, argv[1], answer, sizeof answer) : -1;
    if (n < 0) atelico_last_error(answer, sizeof answer);
    puts(answer);
    atelico_destroy(engine);
    return n < 0;
}
