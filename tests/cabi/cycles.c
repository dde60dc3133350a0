/* Create, generate and destroy many times in one process, as an editor's Play button does: memory stays flat.
 * Argument: the number of cycles. */
#include "tap.h"

#include <unistd.h>

/* Resident memory in MB; the second number of /proc/self/statm counts pages. */
static double resident_mb(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%*d %ld", &pages) != 1) return -1;
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576.0;
}

int main(int argc, char **argv) {
    int cycles = argc > 1 ? atoi(argv[1]) : 20, answered = 0;
    double slowest_destroy = 0, early = 0;
    char request[1024], answer[1 << 15];
    request_for(request, sizeof request, MODEL, "Hello", 3, "");
    for (int i = 0; i < cycles; i++) {
        atelico_engine *engine = atelico_create(CONFIG);
        answered += atelico_chat_completion(engine, request, answer, sizeof answer) > 0;
        double start = now_ms();
        atelico_destroy(engine);
        double took = now_ms() - start;
        if (took > slowest_destroy) slowest_destroy = took;
        if (i == 4) early = resident_mb();
    }
    sleep_ms(300);
    double late = resident_mb();
    printf("# resident after 5 cycles %.0f MB, after %d %.0f MB; slowest destroy %.3f ms\n", early, cycles, late,
           slowest_destroy);
    check(answered == cycles, "every cycle answers");
    check(early > 0 && late < early + 40, "memory is flat after the first cycles");
    check(slowest_destroy < 200, "destroy is bounded");
    return tap_end();
}
