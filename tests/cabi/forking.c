/* A child that a game forks, to start another program, exits without waiting for threads that only its parent has. */
#include "tap.h"

#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    static char request[1024], event[1 << 16];
    int status = -1;
    atelico_engine *engine = atelico_create(CONFIG);
    int64_t job = atelico_chat_begin(engine, request_for(request, sizeof request, MODEL, "Hello", 500, ""));
    check(wait_event(engine, job, event, sizeof event) >= 0, "the parent generates");
    double begun = now_ms();
    pid_t child = fork();
    if (child == 0) exit(7);
    waitpid(child, &status, 0);
    /* Waiting for the parent's engine would take three seconds. */
    check(WIFEXITED(status) && WEXITSTATUS(status) == 7 && now_ms() - begun < 2500, "the child exits at once");
    return tap_end();
}
