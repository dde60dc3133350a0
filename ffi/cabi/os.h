/* What the mailbox needs of the operating system: locks, conditions, threads, libraries, paths. Nothing else includes
 * a system's own headers. Written for POSIX and Win32; only Linux has been built and run. */

#ifndef ATELICO_OS_H
#define ATELICO_OS_H

#include <stddef.h>

#if defined(_WIN32)
#  define WIN32_LEAN_AND_MEAN
#  include <windows.h>
typedef SRWLOCK os_mutex;
typedef CONDITION_VARIABLE os_condition;
#  define OS_MUTEX_INIT SRWLOCK_INIT
#  define OS_CONDITION_INIT CONDITION_VARIABLE_INIT
#  define OS_THREAD_LOCAL __declspec(thread)
#else
#  include <pthread.h>
typedef pthread_mutex_t os_mutex;
typedef pthread_cond_t os_condition;
#  define OS_MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
#  define OS_CONDITION_INIT PTHREAD_COND_INITIALIZER
#  define OS_THREAD_LOCAL __thread
#endif

void os_lock(os_mutex *mutex);
void os_unlock(os_mutex *mutex);
void os_condition_init(os_condition *condition);
void os_condition_free(os_condition *condition);
void os_wait(os_condition *condition, os_mutex *mutex);
/* Like os_wait, for at most `milliseconds`; may return earlier. */
void os_wait_for(os_condition *condition, os_mutex *mutex, int milliseconds);
void os_wake_all(os_condition *condition);

/* Milliseconds since some moment in the past; never goes back. */
double os_now_ms(void);

/* Start a detached thread with an 8 MB stack that receives none of the host's asynchronous signals. 0: started. */
int os_start_thread(void (*run)(void));

/* Have `run` called when the process exits, last in first out with all that others added. Neither function does anything
 * in a forked child, which has none of our threads, or on Windows, which ends all threads before it leaves libraries. */
void os_at_exit(void (*run)(void));

/* Have `run` called when this thread calls exit() or returns from main(), before all that is done at exit otherwise.
 * Further calls do nothing and cost next to nothing. Where only glibc could do this, not at all. */
void os_at_exit_of_thread(void (*run)(void));

/* Write the folder of the library that contains this code, without a trailing separator, as UTF-8. 0: written. */
int os_own_folder(char *folder, size_t size);

/* Whether `path` starts at a root. */
int os_is_absolute(const char *path);

/* Load a library for good, its symbols visible to libraries loaded later where `global` is set. NULL: failed, and
 * `why` says why. */
void *os_load_library(const char *path, int global, char *why, size_t why_size);

/* The function `name` of a loaded library, or NULL. Convert it to its true type before calling it. */
typedef void (*os_function)(void);
os_function os_find_function(void *library, const char *name);

#endif
