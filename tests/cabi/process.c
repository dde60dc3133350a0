/* What the library leaves alone in the process it lives in, and that it survives being unloaded.
 * Arguments: the library's path, a file for standard error. */
#include "atelico.h"

#include <dlfcn.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SIGNALS 32

static atelico_engine *(*create)(const char *);
static void (*destroy)(atelico_engine *);
static int32_t (*complete)(atelico_engine *, const char *, char *, int32_t);

static int count, failed;

static void check(int holds, const char *statement) {
    printf("%sok %d - %s\n", holds ? "" : "not ", ++count, statement);
    failed += !holds;
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (found == NULL) exit(3);
    return found;
}

/* Open the library as a game's plugin loader does: locally. */
static void *open_library(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    *(void **)&create = symbol(library, "atelico_create");
    *(void **)&destroy = symbol(library, "atelico_destroy");
    *(void **)&complete = symbol(library, "atelico_chat_completion");
    return library;
}

static volatile sig_atomic_t signals_here, signals_elsewhere;
static pid_t main_thread;

static void on_signal(int number) {
    (void)number;
    if (gettid() == main_thread) signals_here++;
    else signals_elsewhere++;
}

static int same_handlers(const struct sigaction *before) {
    struct sigaction now;
    for (int i = 1; i < SIGNALS; i++) {
        if (i == SIGKILL || i == SIGSTOP) continue;
        sigaction(i, NULL, &now);
        if (now.sa_handler != before[i].sa_handler || now.sa_flags != before[i].sa_flags) return 0;
    }
    return 1;
}

static int same_mask(const sigset_t *before) {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    for (int i = 1; i < SIGNALS; i++)
        if (sigismember(&now, i) != sigismember(before, i)) return 0;
    return 1;
}

int main(int argc, char **argv) {
    static char answer[1 << 16];
    static const char request[] =
        "{\"model\": \"SmolLM2-135M-Instruct\", \"max_tokens\": 4,"
        " \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}";
    struct sigaction before[SIGNALS], action;
    struct stat output;
    sigset_t mask_before;
    char locale_before[256];
    if (argc != 3) return 2;

    main_thread = gettid();
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    fesetround(FE_UPWARD);
    feenableexcept(0);
    snprintf(locale_before, sizeof locale_before, "%s", setlocale(LC_ALL, NULL));
    for (int i = 1; i < SIGNALS; i++) sigaction(i, NULL, &before[i]);
    pthread_sigmask(SIG_BLOCK, NULL, &mask_before);
    if (freopen(argv[2], "w", stderr) == NULL) return 2;

    void *library = open_library(argv[1]);
    atelico_engine *engine = create("{\"n_ctx\": 512, \"n_threads\": 1}");
    check(complete(engine, request, answer, sizeof answer) > 0, "an engine opened locally answers");

    check(same_handlers(before), "signal handlers are as before");
    check(same_mask(&mask_before), "the signal mask is as before");
    for (int i = 0; i < 50; i++) kill(getpid(), SIGUSR1);
    check(signals_here > 0 && signals_elsewhere == 0, "the host's signals run on the host's threads");
    kill(getpid(), SIGINT);
    check(complete(engine, request, answer, sizeof answer) > 0, "an interrupt is the host's business");
    check(strcmp(setlocale(LC_ALL, NULL), locale_before) == 0, "the locale is as before");
    check(fegetround() == FE_UPWARD, "the rounding mode is as before");

    destroy(engine);
    check(dlclose(library) == 0, "the library is closed");
    struct timespec pause = {0, 200000000};
    nanosleep(&pause, NULL);
    open_library(argv[1]);
    engine = create("{\"n_ctx\": 512, \"n_threads\": 1}");
    check(complete(engine, request, answer, sizeof answer) > 0, "opened again it answers again");
    fflush(stderr);
    check(stat(argv[2], &output) == 0 && output.st_size == 0, "nothing is printed to standard error");
    printf("1..%d\n", count);
    return failed != 0; /* without destroy: an exit with a living engine is clean */
}
