/* Ask once and wait for the whole answer. For tools and loading screens; a game's main thread uses frame_loop.c.
 *
 *     cc blocking.c -Ibuild/lib -Lbuild/lib -latelico -Wl,-rpath,build/lib -o blocking && ./blocking
 */
#include "atelico.h"

#include <stdio.h>
#include <stdlib.h>

static const char request[] =
    "{\"model\": \"SmolLM2-135M-Instruct\", \"max_tokens\": 40, \"temperature\": 0,"
    " \"messages\": [{\"role\": \"user\", \"content\": \"Greet a traveller in one sentence.\"}]}";

static int fail(const char *what) {
    char why[4096];
    atelico_last_error(why, sizeof why);
    fprintf(stderr, "%s: %s\n", what, why);
    return 1;
}

int main(void) {
    atelico_engine *engine = atelico_create(NULL);
    if (engine == NULL) return fail("create");

    /* A buffer that is too small loses nothing: the same call with a larger one returns the same answer. */
    int32_t size = 256;
    char *answer = malloc((size_t)size);
    if (answer == NULL) return 1;
    int32_t length = atelico_chat_completion(engine, request, answer, size);
    if (length >= size) {
        free(answer);
        size = length + 1;
        answer = malloc((size_t)size);
        if (answer == NULL) return 1;
        length = atelico_chat_completion(engine, request, answer, size);
    }
    int failed = length < 0 ? fail("chat") : 0;
    if (!failed) printf("%s\n", answer);

    free(answer);
    atelico_destroy(engine);
    return failed;
}
