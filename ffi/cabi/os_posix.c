/* os.h for Linux and other POSIX systems. */

#if !defined(_WIN32)

#if !defined(_GNU_SOURCE)
#  define _GNU_SOURCE /* dladdr */
#endif

#include "os.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__GLIBC__)
#  include <execinfo.h>
#endif

void os_lock(os_mutex *mutex) { pthread_mutex_lock(mutex); }

void os_unlock(os_mutex *mutex) { pthread_mutex_unlock(mutex); }

void os_condition_init(os_condition *condition) { pthread_cond_init(condition, NULL); }

void os_condition_free(os_condition *condition) { pthread_cond_destroy(condition); }

void os_wait(os_condition *condition, os_mutex *mutex) { pthread_cond_wait(condition, mutex); }

void os_wait_for(os_condition *condition, os_mutex *mutex, int milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += (long)(milliseconds % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec += 1;
        until.tv_nsec -= 1000000000L;
    }
    pthread_cond_timedwait(condition, mutex, &until);
}

void os_wake_all(os_condition *condition) { pthread_cond_broadcast(condition); }

double os_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void *trampoline(void *run) {
    void (*function)(void);
    memcpy(&function, run, sizeof function);
    free(run);
    function();
    return NULL;
}

int os_start_thread(void (*run)(void)) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t ours, before;
    void *argument = malloc(sizeof run);
    if (argument == NULL) return -1;
    memcpy(argument, &run, sizeof run);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, (size_t)8 << 20);
    /* The new thread and all it starts inherit the mask: the host's handlers keep running on the host's threads. Faults
     * stay unblocked, since they belong to the thread that made them. */
    sigfillset(&ours);
    sigdelset(&ours, SIGSEGV);
    sigdelset(&ours, SIGBUS);
    sigdelset(&ours, SIGFPE);
    sigdelset(&ours, SIGILL);
    sigdelset(&ours, SIGTRAP);
    sigdelset(&ours, SIGABRT);
    sigdelset(&ours, SIGSYS);
    pthread_sigmask(SIG_BLOCK, &ours, &before);
    int failed = pthread_create(&thread, &attributes, trampoline, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failed) free(argument);
    return failed ? -1 : 0;
}

static os_mutex exit_lock = OS_MUTEX_INIT; /* guards the two below */
static void (*exit_handler)(void);
static pid_t exit_process;

static void set_exit_handler(void (*run)(void)) {
    os_lock(&exit_lock);
    exit_handler = run;
    exit_process = getpid();
    os_unlock(&exit_lock);
}

static void run_exit_handler(void) {
    os_lock(&exit_lock);
    void (*run)(void) = getpid() == exit_process ? exit_handler : NULL;
    os_unlock(&exit_lock);
    if (run != NULL) run();
}

void os_at_exit(void (*run)(void)) {
    set_exit_handler(run);
    atexit(run_exit_handler);
}

#if defined(__GLIBC__)
/* How a thread's C++ objects are destroyed; exit() begins with those of the thread that calls it. */
extern int __cxa_thread_atexit_impl(void (*run)(void *), void *argument, void *library);

/* Whether exit() is among our callers, and not just the end of a thread. */
static int is_in_exit(void) {
    void *callers[32];
    int n_callers = backtrace(callers, sizeof callers / sizeof callers[0]);
    for (int i = 0; i < n_callers; i++) {
        Dl_info info;
        /* One byte back: exit() never returns, so the address behind its call may belong to the next function. */
        if (dladdr((char *)callers[i] - 1, &info) != 0 && info.dli_sname != NULL && strcmp(info.dli_sname, "exit") == 0)
            return 1;
    }
    return 0;
}

static void run_thread_handler(void *unused) {
    (void)unused;
    if (is_in_exit()) run_exit_handler();
}

void os_at_exit_of_thread(void (*run)(void)) {
    static OS_THREAD_LOCAL int is_done;
    static char anchor; /* its address says which library has to stay loaded */
    if (is_done) return;
    is_done = 1;
    set_exit_handler(run);
    __cxa_thread_atexit_impl(run_thread_handler, NULL, &anchor);
}
#else
void os_at_exit_of_thread(void (*run)(void)) { (void)run; }
#endif

int os_own_folder(char *folder, size_t size) {
    static const char anchor = 0;
    Dl_info info;
    if (dladdr(&anchor, &info) == 0 || info.dli_fname == NULL) return -1;
    /* The loader may know the library by a relative path; the working directory can still have changed since, which
     * nothing here can see. */
    char *real = realpath(info.dli_fname, NULL);
    const char *path = real != NULL ? real : info.dli_fname;
    const char *slash = strrchr(path, '/');
    size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    int written = slash != NULL && length < size;
    if (written) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    free(real);
    return written ? 0 : -1;
}

int os_is_absolute(const char *path) { return path[0] == '/'; }

void *os_load_library(const char *path, int global, char *why, size_t why_size) {
    void *library = dlopen(path, RTLD_NOW | (global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (library == NULL) {
        const char *message = dlerror();
        snprintf(why, why_size, "%s", message != NULL ? message : "unknown error");
    }
    return library;
}

os_function os_find_function(void *library, const char *name) {
    void *symbol = dlsym(library, name);
    os_function function;
    memcpy(&function, &symbol, sizeof function); /* C has no conversion from data to function pointers */
    return function;
}

#else
typedef int atelico_os_posix_is_empty_here; /* ISO C wants a declaration in every file */
#endif
