/* The contract between the mailbox (libatelico, plain C) and the host (the side that runs Python, or a stub in tests).
 * The host lives on one thread that the mailbox starts; it takes mail and pushes events, and knows engines and jobs
 * only by number, so that neither side can hold a dead pointer of the other. */

#ifndef ATELICO_HOST_H
#define ATELICO_HOST_H

#include <stddef.h>
#include <stdint.h>

/* What a game has asked for. */
enum host_mail_kind {
    HOST_CREATE = 1,   /* text: configuration JSON, "" for the defaults */
    HOST_DESTROY = 2,  /* answer with closed() once all threads of the engine have ended */
    HOST_LOAD = 3,     /* text: a model's name; report it with set_model() from now on */
    HOST_WATCH = 4,    /* text: a model's name; as HOST_LOAD, without loading it */
    HOST_STREAM = 5,   /* text: a request; push() chunks, then end() */
    HOST_COMPLETE = 6, /* text: a request; push() the whole response, then end() */
    HOST_CANCEL = 7    /* stop `job`; it still gets its end() */
};

struct host_mail {
    int32_t kind;
    int64_t engine;
    int64_t job;
    int64_t ticket;   /* HOST_LOAD, HOST_WATCH: hand it back in set_model() */
    const char *text; /* UTF-8 and a NUL; valid until release() */
    int64_t length;
    void *owner; /* the mailbox's own */
};

/* What the host may call, from any thread. Unknown engines and jobs are ignored: they were destroyed meanwhile. */
struct host_calls {
    /* Wait for the next mail, for ever if need be. */
    void (*take)(struct host_mail *mail);
    void (*release)(struct host_mail *mail);
    /* Queue an event of a job. 0 where nobody wants it any more. */
    int32_t (*push)(int64_t engine, int64_t job, const char *text, int64_t length);
    /* A job has ended: result 0, or a code of atelico.h with its last event (JSON) and a message for people. */
    void (*end)(int64_t engine, int64_t job, int32_t result, const char *event, int64_t event_length,
                const char *message);
    /* A model's state (enum atelico_model_state_value), or the negative result of its failure with a message. */
    void (*set_model)(int64_t engine, const char *name, int64_t ticket, int32_t state, float progress,
                      const char *message);
    /* The engine cannot be made: all its requests, now and later, end like this. */
    void (*fail_engine)(int64_t engine, int32_t result, const char *event, int64_t event_length, const char *message);
    /* HOST_DESTROY has been carried out. */
    void (*closed)(int64_t engine);
    /* From now on the process's exit waits until models have stopped. To be called again whenever llama.cpp may have
     * brought up more that has exit code of its own: imported, loaded, run for the first time. */
    void (*guard_exit)(void);
    /* From now on the process's exit also calls hold(), on a thread of its own, once all engines have closed: it stops
     * every thread of the host, for good. Before this call and the first take(), exit waits for one of them. */
    void (*can_be_held)(void (*hold)(void));
};

/* Where the interpreter is; all paths absolute. Read from atelico-home.txt beside the library (home.h). */
struct host_home {
    char *libpython;   /* the interpreter's shared library */
    char *host;        /* the library with host_main */
    char *executable;  /* what sys.executable says */
    char *prefix;      /* what sys.prefix says: the folder of the environment */
    char *base_prefix; /* the folder of the standard library's installation */
    char **path;       /* what sys.path says */
    size_t n_path;
};

/* The one entry of the host's library, under the name "atelico_host_main". Returns only when it cannot run, with the
 * reason in `why`. */
typedef void (*host_main_function)(const struct host_home *home, const struct host_calls *calls, char *why,
                                   size_t why_size);

/* Start the host's thread, which takes mail; implemented by host_loader.c, and by the stub of the tests. 0: started. */
int host_start(void);

#endif
