/* See mailbox.h. One lock guards everything; memory is taken and freed outside of it where texts can be large. */

#include "mailbox.h"

#include "atelico.h"
#include "os.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ENGINES = 64, MAX_JOBS = 4096, MAX_MODELS = 1024, MAX_KEPT = 64, MAX_EXIT_HANDLERS = 256 };

/* How long the process's exit waits for models that still run and for the interpreter: exit code of the libraries they use
 * would free what they work on. */
enum { EXIT_WAIT_MS = 3000 };

struct event {
    struct event *next;
    size_t length;
    char text[];
};

struct job {
    struct job *next;
    int64_t id;
    struct event *first, *last;
    int is_awaited; /* a thread waits in mailbox_complete and frees it */
    int is_cancelled;
    int has_ended;
    int32_t result;
    char *message; /* where result is negative */
};

struct model {
    struct model *next;
    char *name;
    int64_t ticket; /* of the last HOST_LOAD; older reports are out of date */
    int32_t state;
    float progress;
    char *message; /* where state is negative */
};

/* An answer whose buffer was too small. */
struct kept {
    struct kept *next;
    const void *thread;
    char *request;
    struct event *answer;
};

struct engine {
    int64_t handle;
    int n_waiting; /* threads in mailbox_complete; the last one frees a destroyed engine */
    int is_destroyed;
    int is_taken; /* the host has seen its HOST_CREATE */
    int32_t failed; /* the result of everything, where the engine could not be made */
    char *failed_message;
    struct job *jobs;
    int n_jobs;
    struct model *models;
    int n_models;
    struct kept *kept;
    int n_kept;
    os_condition ended; /* an awaited job has ended */
};

struct mail {
    struct mail *next;
    int32_t kind;
    int64_t engine, job, ticket;
    size_t length;
    char text[];
};

static os_mutex lock = OS_MUTEX_INIT;
static os_condition mail_came = OS_CONDITION_INIT;

static struct engine *engines[MAX_ENGINES];
static struct mail *first_mail, *last_mail;
static int64_t last_generation, last_job;
static int host_runs;
static int host_is_ready;        /* it takes mail, or can be held */
static void (*hold_host)(void); /* stops its threads for good */
static int n_closing;            /* engines whose HOST_DESTROY is not yet carried out */
static int n_exit_handlers;
static int is_exiting;
static int is_held;
static os_condition host_changed = OS_CONDITION_INIT; /* one of the five above */

/* --- small parts ------------------------------------------------------------------------------------------------ */

static int32_t out_of_memory(void) { return text_fail(ATELICO_INTERNAL, "Out of memory."); }

/* Handles are odd numbers with a generation that never comes again, so neither a destroyed engine nor a pointer to
 * something else is taken for a living one. */
static int64_t make_handle(int slot) {
    int64_t most = sizeof(void *) == 4 ? 0xFFFFFF : INT64_C(0xFFFFFFFFFFFFFF);
    last_generation = last_generation == most ? 1 : last_generation + 1;
    return last_generation << 7 | (int64_t)slot << 1 | 1;
}

static struct engine *find_engine(int64_t handle) {
    struct engine *engine = handle > 0 && (handle & 1) ? engines[handle >> 1 & (MAX_ENGINES - 1)] : NULL;
    return engine != NULL && engine->handle == handle ? engine : NULL;
}

/* find_engine for the game: with a message, and only engines that work. Called with the lock. */
static int32_t find_working(int64_t handle, struct engine **engine) {
    *engine = find_engine(handle);
    if (*engine == NULL)
        return text_fail(ATELICO_INVALID_HANDLE, "The engine handle is NULL, destroyed or not from atelico_create.");
    if ((*engine)->failed) return text_fail((*engine)->failed, "%s", (*engine)->failed_message);
    return ATELICO_OK;
}

static struct job **find_job(struct engine *engine, int64_t id) {
    for (struct job **at = &engine->jobs; *at != NULL; at = &(*at)->next)
        if ((*at)->id == id) return at;
    return NULL;
}

static struct model *find_model(struct engine *engine, const char *name) {
    for (struct model *model = engine->models; model != NULL; model = model->next)
        if (strcmp(model->name, name) == 0) return model;
    return NULL;
}

static struct event *new_event(const char *text, size_t length) {
    struct event *event = malloc(sizeof *event + length + 1);
    if (event == NULL) return NULL;
    event->next = NULL;
    event->length = length;
    memcpy(event->text, text, length);
    event->text[length] = '\0';
    return event;
}

static void append_event(struct job *job, struct event *event) {
    if (job->first == NULL) job->first = event;
    else job->last->next = event;
    job->last = event;
}

static struct event *take_event(struct job *job) {
    struct event *event = job->first;
    if (event != NULL) job->first = event->next;
    return event;
}

static void free_job(struct job *job) {
    for (struct event *event = take_event(job); event != NULL; event = take_event(job)) free(event);
    free(job->message);
    free(job);
}

static void free_model(struct model *model) {
    free(model->name);
    free(model->message);
    free(model);
}

static void free_kept(struct kept *kept) {
    free(kept->request);
    free(kept->answer);
    free(kept);
}

static void free_engine(struct engine *engine) {
    for (struct job *job = engine->jobs, *next; job != NULL; job = next) {
        next = job->next;
        free_job(job);
    }
    for (struct model *model = engine->models, *next; model != NULL; model = next) {
        next = model->next;
        free_model(model);
    }
    for (struct kept *kept = engine->kept, *next; kept != NULL; kept = next) {
        next = kept->next;
        free_kept(kept);
    }
    os_condition_free(&engine->ended);
    free(engine->failed_message);
    free(engine);
}

/* --- mail -------------------------------------------------------------------------------------------------------- */

static struct mail *new_mail(int32_t kind, const char *text, size_t length) {
    struct mail *mail = calloc(1, sizeof *mail + length + 1);
    if (mail == NULL) return NULL;
    mail->kind = kind;
    mail->length = length;
    if (length > 0) memcpy(mail->text, text, length);
    return mail;
}

/* Called with the lock. */
static void send_mail(struct mail *mail, int64_t engine, int64_t job, int64_t ticket) {
    mail->engine = engine;
    mail->job = job;
    mail->ticket = ticket;
    if (first_mail == NULL) first_mail = mail;
    else last_mail->next = mail;
    last_mail = mail;
    os_wake_all(&mail_came);
}

/* Unlink the mail of one engine, or of all with 0; returned as a list for the caller to free. Called with the lock. */
static struct mail *withdraw_mail(int64_t engine) {
    struct mail *withdrawn = NULL, **at = &first_mail;
    last_mail = NULL;
    while (*at != NULL) {
        struct mail *mail = *at;
        if (engine == 0 || mail->engine == engine) {
            *at = mail->next;
            mail->next = withdrawn;
            withdrawn = mail;
        } else {
            last_mail = mail;
            at = &mail->next;
        }
    }
    return withdrawn;
}

static void free_mail(struct mail *mail) {
    while (mail != NULL) {
        struct mail *next = mail->next;
        free(mail);
        mail = next;
    }
}

/* --- process exit ------------------------------------------------------------------------------------------------- */

static void hold_thread(void) {
    hold_host();
    os_lock(&lock);
    is_held = 1;
    os_wake_all(&host_changed);
    os_unlock(&lock);
}

/* For threads of the host that come here while the process exits. Called with the lock. */
static void wait_for_the_end(void) {
    while (is_exiting) os_wait(&mail_came, &lock);
}

static void stop_at_exit(void) {
    double until = os_now_ms() + EXIT_WAIT_MS;
    os_lock(&lock);
    int is_repeated = is_exiting;
    is_exiting = 1;
    os_unlock(&lock);
    if (is_repeated) return;
    for (int slot = 0; slot < MAX_ENGINES; slot++) {
        os_lock(&lock);
        int64_t handle = engines[slot] == NULL ? 0 : engines[slot]->handle;
        os_unlock(&lock);
        mailbox_destroy(handle);
    }
    os_lock(&lock);
    while (host_runs && (!host_is_ready || n_closing > 0) && os_now_ms() < until) os_wait_for(&host_changed, &lock, 20);
    int can_hold = host_runs && hold_host != NULL;
    os_unlock(&lock);
    if (!can_hold || os_start_thread(hold_thread) != 0) return;
    os_lock(&lock);
    while (!is_held && os_now_ms() < until) os_wait_for(&host_changed, &lock, 20);
    os_unlock(&lock);
}

void mailbox_guard_thread(void) { os_at_exit_of_thread(stop_at_exit); }

/* Exit handlers run last in, first out, and C++ libraries add theirs as they are loaded and used: to run before them,
 * ours is added again whenever more of them may have come. Called without our lock: the C library has one of its own. */
static void add_exit_handler(void) {
    os_lock(&lock);
    int add = n_exit_handlers < MAX_EXIT_HANDLERS && !is_exiting;
    if (add) n_exit_handlers++;
    os_unlock(&lock);
    if (add) os_at_exit(stop_at_exit);
}

/* --- engines ------------------------------------------------------------------------------------------------------ */

int64_t mailbox_create(const char *config, size_t length) {
    struct engine *engine = calloc(1, sizeof *engine);
    struct mail *mail = new_mail(HOST_CREATE, config, length);
    int32_t result = engine == NULL || mail == NULL ? out_of_memory() : ATELICO_OK;
    int64_t handle = 0;
    int starts = 0;
    if (result == ATELICO_OK) {
        os_condition_init(&engine->ended);
        os_lock(&lock);
        int slot = 0;
        while (slot < MAX_ENGINES && engines[slot] != NULL) slot++;
        if (is_exiting) {
            result = text_fail(ATELICO_SHUTTING_DOWN, "The process is exiting.");
        } else if (slot == MAX_ENGINES) {
            result = text_fail(ATELICO_BUSY, "%d engines live; destroy one first.", MAX_ENGINES);
        } else if (!host_runs && host_start() != 0) {
            result = text_fail(ATELICO_INIT_FAILED, "The system did not give us a thread.");
        } else {
            starts = !host_runs;
            host_runs = 1;
            engines[slot] = engine;
            handle = engine->handle = make_handle(slot);
            send_mail(mail, handle, 0, 0);
        }
        os_unlock(&lock);
        if (handle == 0) os_condition_free(&engine->ended);
    }
    if (handle != 0 && starts) add_exit_handler();
    if (handle == 0) {
        free(engine);
        free(mail);
    }
    return handle;
}

/* A job ends; the engine's own way of failing. Called with the lock. */
static void end_job(struct engine *engine, struct job *job, int32_t result, struct event *event, char *message) {
    if (event != NULL) append_event(job, event);
    job->has_ended = 1;
    job->result = result;
    job->message = message;
    if (job->is_awaited) os_wake_all(&engine->ended);
}

void mailbox_destroy(int64_t handle) {
    struct mail *farewell = new_mail(HOST_DESTROY, "", 0);
    struct mail *withdrawn = NULL;
    int is_free = 0;
    os_lock(&lock);
    struct engine *engine = find_engine(handle);
    if (engine != NULL) {
        engines[handle >> 1 & (MAX_ENGINES - 1)] = NULL;
        engine->is_destroyed = 1;
        withdrawn = withdraw_mail(handle);
        /* Without memory for the farewell the models stay loaded, which then is the smaller evil. */
        if (engine->is_taken && farewell != NULL) {
            send_mail(farewell, handle, 0, 0);
            n_closing++;
            farewell = NULL;
        }
        for (struct job *job = engine->jobs; job != NULL; job = job->next)
            if (!job->has_ended) end_job(engine, job, ATELICO_SHUTTING_DOWN, NULL, NULL);
        os_wake_all(&engine->ended);
        is_free = engine->n_waiting == 0;
    }
    os_unlock(&lock);
    if (is_free) free_engine(engine);
    free_mail(withdrawn);
    free(farewell);
}

/* --- models ------------------------------------------------------------------------------------------------------- */

/* The entry of a name, made where there is none; `fresh` is used up then. Called with the lock. */
static struct model *obtain_model(struct engine *engine, const char *name, struct model **fresh) {
    struct model *model = find_model(engine, name);
    if (model != NULL || *fresh == NULL) return model;
    if (engine->n_models == MAX_MODELS) return NULL;
    model = *fresh;
    *fresh = NULL;
    model->next = engine->models;
    engine->models = model;
    engine->n_models++;
    return model;
}

static struct model *new_model(const char *name, size_t length) {
    struct model *model = calloc(1, sizeof *model);
    if (model == NULL) return NULL;
    model->name = text_copy(name, length);
    if (model->name == NULL) {
        free(model);
        return NULL;
    }
    return model;
}

static int32_t too_many_models(void) {
    return text_fail(ATELICO_BUSY, "The engine knows %d model names, the most it may.", MAX_MODELS);
}

int32_t mailbox_load(int64_t handle, const char *name, size_t length) {
    struct model *fresh = new_model(name, length);
    struct mail *mail = new_mail(HOST_LOAD, name, length);
    char *stale = NULL;
    struct engine *engine;
    if (fresh == NULL || mail == NULL) {
        if (fresh != NULL) free_model(fresh);
        free(mail);
        return out_of_memory();
    }
    os_lock(&lock);
    int32_t result = find_working(handle, &engine);
    struct model *model = result == ATELICO_OK ? obtain_model(engine, name, &fresh) : NULL;
    if (result == ATELICO_OK && model == NULL) result = too_many_models();
    if (model != NULL && model->state != ATELICO_MODEL_LOADING && model->state != ATELICO_MODEL_READY) {
        model->state = ATELICO_MODEL_LOADING;
        model->progress = 0.0f;
        stale = model->message;
        model->message = NULL;
        send_mail(mail, handle, 0, ++model->ticket);
        mail = NULL;
    }
    os_unlock(&lock);
    if (fresh != NULL) free_model(fresh);
    free(mail);
    free(stale);
    return result;
}

int32_t mailbox_model_state(int64_t handle, const char *name, size_t length, float *progress) {
    struct model *fresh = NULL;
    struct mail *mail = NULL;
    struct engine *engine;
    int32_t state;
    for (int with_memory = 0;; with_memory = 1) {
        os_lock(&lock);
        state = find_working(handle, &engine);
        struct model *model = state == ATELICO_OK ? find_model(engine, name) : NULL;
        int is_new = state == ATELICO_OK && model == NULL && with_memory;
        if (is_new) {
            model = obtain_model(engine, name, &fresh);
            if (model == NULL) {
                state = too_many_models();
            } else {
                send_mail(mail, handle, 0, model->ticket);
                mail = NULL;
            }
        }
        if (model != NULL) {
            state = model->state;
            if (progress != NULL) *progress = model->progress;
            if (state < 0) text_fail(state, "%s", model->message != NULL ? model->message : "");
        }
        os_unlock(&lock);
        if (model != NULL || state < 0 || with_memory) break;
        /* A name nobody has mentioned: the host is asked to look. */
        fresh = new_model(name, length);
        mail = new_mail(HOST_WATCH, name, length);
        if (fresh == NULL || mail == NULL) {
            state = out_of_memory();
            break;
        }
    }
    if (fresh != NULL) free_model(fresh);
    free(mail);
    return state;
}

/* --- jobs --------------------------------------------------------------------------------------------------------- */

/* Queue a request. Called with the lock; `job` and `mail` are used up where the result is ATELICO_OK. */
static int32_t begin(struct engine *engine, struct job *job, struct mail *mail) {
    if (engine->n_jobs >= MAX_JOBS)
        return text_fail(ATELICO_BUSY, "%d jobs are not done. Poll them to ATELICO_DONE.", MAX_JOBS);
    job->id = ++last_job;
    job->next = engine->jobs;
    engine->jobs = job;
    engine->n_jobs++;
    send_mail(mail, engine->handle, job->id, 0);
    return ATELICO_OK;
}

static void unlink_job(struct engine *engine, struct job **at) {
    *at = (*at)->next;
    engine->n_jobs--;
}

int64_t mailbox_begin(int64_t handle, const char *request, size_t length) {
    struct job *job = calloc(1, sizeof *job);
    struct mail *mail = new_mail(HOST_STREAM, request, length);
    struct engine *engine;
    int64_t id = 0;
    if (job == NULL || mail == NULL) {
        free(job);
        free(mail);
        return out_of_memory();
    }
    os_lock(&lock);
    int32_t result = find_working(handle, &engine);
    if (result == ATELICO_OK) result = begin(engine, job, mail);
    if (result == ATELICO_OK) id = job->id;
    os_unlock(&lock);
    if (result == ATELICO_OK) return id;
    free(job);
    free(mail);
    return result;
}

static int32_t no_such_job(int64_t id) {
    return text_fail(ATELICO_INVALID_ARGUMENT, "job: %lld is not a job of this engine, or it is done and forgotten.",
                     (long long)id);
}

int32_t mailbox_poll(int64_t handle, int64_t id, char *buf, int32_t buf_len) {
    struct event *delivered = NULL;
    struct job *done = NULL;
    int32_t result;
    os_lock(&lock);
    struct engine *engine = find_engine(handle);
    struct job **at = engine == NULL ? NULL : find_job(engine, id);
    if (engine == NULL) {
        result = find_working(handle, &engine);
    } else if (at == NULL || (*at)->is_awaited) {
        result = no_such_job(id);
    } else if ((*at)->first != NULL) {
        struct job *job = *at;
        result = (int32_t)job->first->length;
        if (text_deliver(job->first->text, job->first->length, buf, buf_len)) {
            delivered = take_event(job);
            if (job->has_ended && job->first == NULL && job->result < 0)
                text_fail(job->result, "%s", job->message != NULL ? job->message : "");
        }
    } else if ((*at)->has_ended) {
        result = ATELICO_DONE;
        done = *at;
        unlink_job(engine, at);
    } else {
        result = ATELICO_EMPTY;
    }
    os_unlock(&lock);
    free(delivered);
    if (done != NULL) free_job(done);
    return result;
}

int32_t mailbox_cancel(int64_t handle, int64_t id) {
    struct mail *mail = new_mail(HOST_CANCEL, "", 0);
    int32_t result = ATELICO_OK;
    if (mail == NULL) return out_of_memory();
    os_lock(&lock);
    struct engine *engine = find_engine(handle);
    struct job **at = engine == NULL ? NULL : find_job(engine, id);
    if (engine == NULL) {
        result = find_working(handle, &engine);
    } else if (at == NULL || (*at)->is_awaited) {
        result = no_such_job(id);
    } else if (!(*at)->has_ended && !(*at)->is_cancelled) {
        (*at)->is_cancelled = 1;
        send_mail(mail, handle, id, 0);
        mail = NULL;
    }
    os_unlock(&lock);
    free(mail);
    return result;
}

/* --- waiting for an answer ---------------------------------------------------------------------------------------- */

/* Unlink what is kept for `thread`. Called with the lock. */
static struct kept *take_kept(struct engine *engine, const void *thread) {
    for (struct kept **at = &engine->kept; *at != NULL; at = &(*at)->next) {
        if ((*at)->thread != thread) continue;
        struct kept *kept = *at;
        *at = kept->next;
        engine->n_kept--;
        return kept;
    }
    return NULL;
}

/* Keep an answer; returns the oldest one where there are too many, for the caller to free. Called with the lock. */
static struct kept *keep(struct engine *engine, struct kept *kept) {
    kept->next = engine->kept;
    engine->kept = kept;
    engine->n_kept++;
    if (engine->n_kept <= MAX_KEPT) return NULL;
    struct kept **oldest = &engine->kept;
    while ((*oldest)->next != NULL) oldest = &(*oldest)->next;
    struct kept *evicted = *oldest;
    *oldest = NULL;
    engine->n_kept--;
    return evicted;
}

/* Wait until an awaited job has ended, and unlink it. Called with the lock. */
static void await(struct engine *engine, struct job *job) {
    engine->n_waiting++;
    while (!job->has_ended) os_wait(&engine->ended, &lock);
    engine->n_waiting--;
    struct job **at = find_job(engine, job->id);
    if (at != NULL) unlink_job(engine, at);
}

/* Hand the answer of an ended job over, or put it into `kept`. Called without the lock. */
static int32_t deliver_answer(struct job *job, struct kept *kept, char *buf, int32_t buf_len) {
    if (job->result == ATELICO_SHUTTING_DOWN && job->message == NULL)
        return text_fail(ATELICO_SHUTTING_DOWN, "The engine was destroyed before the answer came.");
    if (job->result < 0) return text_fail(job->result, "%s", job->message != NULL ? job->message : "");
    struct event *answer = job->first;
    if (answer == NULL) return out_of_memory(); /* the only way to lose it */
    if (!text_deliver(answer->text, answer->length, buf, buf_len)) kept->answer = take_event(job);
    return (int32_t)answer->length;
}

/* Ask the host; the answer goes to `buf`, or into `kept` where it does not fit. */
static int32_t ask(int64_t handle, const char *request, size_t length, struct kept *kept, char *buf, int32_t buf_len) {
    struct job *job = calloc(1, sizeof *job);
    struct mail *mail = new_mail(HOST_COMPLETE, request, length);
    struct engine *engine;
    if (job == NULL || mail == NULL) {
        free(job);
        free(mail);
        return out_of_memory();
    }
    job->is_awaited = 1;
    os_lock(&lock);
    int32_t result = find_working(handle, &engine);
    if (result == ATELICO_OK) result = begin(engine, job, mail);
    if (result != ATELICO_OK) {
        os_unlock(&lock);
        free(job);
        free(mail);
        return result;
    }
    await(engine, job);
    int is_free = engine->is_destroyed && engine->n_waiting == 0;
    os_unlock(&lock);
    if (is_free) free_engine(engine);
    result = deliver_answer(job, kept, buf, buf_len);
    free_job(job);
    return result;
}

int32_t mailbox_complete(int64_t handle, const void *thread, const char *request, size_t length, char *buf,
                         int32_t buf_len) {
    os_lock(&lock);
    struct engine *engine = find_engine(handle);
    struct kept *kept = engine == NULL ? NULL : take_kept(engine, thread);
    os_unlock(&lock);
    int32_t result;
    if (kept != NULL && strcmp(kept->request, request) == 0) {
        result = (int32_t)kept->answer->length;
        if (text_deliver(kept->answer->text, kept->answer->length, buf, buf_len)) {
            free(kept->answer);
            kept->answer = NULL;
        }
    } else {
        if (kept != NULL) free_kept(kept);
        kept = calloc(1, sizeof *kept);
        if (kept == NULL) return out_of_memory();
        kept->thread = thread;
        kept->request = text_copy(request, length);
        result = kept->request == NULL ? out_of_memory() : ask(handle, request, length, kept, buf, buf_len);
    }
    if (kept->answer != NULL) {
        os_lock(&lock);
        engine = find_engine(handle);
        if (engine != NULL) kept = keep(engine, kept);
        os_unlock(&lock);
    }
    if (kept != NULL) free_kept(kept);
    return result;
}

/* --- the host's side ---------------------------------------------------------------------------------------------- */

static void host_take(struct host_mail *out) {
    os_lock(&lock);
    host_is_ready = 1;
    os_wake_all(&host_changed);
    while (first_mail == NULL) os_wait(&mail_came, &lock);
    struct mail *mail = first_mail;
    first_mail = mail->next;
    if (first_mail == NULL) last_mail = NULL;
    struct engine *engine = find_engine(mail->engine);
    if (engine != NULL) engine->is_taken = 1;
    os_unlock(&lock);
    out->kind = mail->kind;
    out->engine = mail->engine;
    out->job = mail->job;
    out->ticket = mail->ticket;
    out->text = mail->text;
    out->length = (int64_t)mail->length;
    out->owner = mail;
}

static void host_release(struct host_mail *mail) {
    free(mail->owner);
    mail->owner = NULL;
    mail->text = NULL;
}

/* The job that still wants events. Called with the lock. */
static struct job *find_running(int64_t handle, int64_t id, struct engine **engine) {
    *engine = find_engine(handle);
    struct job **at = *engine == NULL ? NULL : find_job(*engine, id);
    return at == NULL || (*at)->has_ended ? NULL : *at;
}

static int32_t host_push(int64_t handle, int64_t id, const char *text, int64_t length) {
    /* A length is an int32 in the interface; no answer comes near. */
    struct event *event = length < 0 || length >= INT32_MAX ? NULL : new_event(text, (size_t)length);
    struct engine *engine;
    if (event == NULL) return 0;
    os_lock(&lock);
    struct job *job = find_running(handle, id, &engine);
    if (job != NULL) append_event(job, event);
    os_unlock(&lock);
    if (job == NULL) free(event);
    return job != NULL;
}

static void host_end(int64_t handle, int64_t id, int32_t result, const char *event_text, int64_t event_length,
                     const char *message_text) {
    struct event *event = result < 0 ? new_event(event_text, (size_t)event_length) : NULL;
    char *message = result < 0 ? text_copy(message_text, strlen(message_text)) : NULL;
    struct engine *engine;
    os_lock(&lock);
    struct job *job = find_running(handle, id, &engine);
    if (job != NULL) end_job(engine, job, result, event, message);
    os_unlock(&lock);
    if (job == NULL) {
        free(event);
        free(message);
    }
}

static void host_set_model(int64_t handle, const char *name, int64_t ticket, int32_t state, float progress,
                           const char *message_text) {
    char *message = state < 0 ? text_copy(message_text, strlen(message_text)) : NULL;
    char *stale = message;
    os_lock(&lock);
    struct engine *engine = find_engine(handle);
    struct model *model = engine == NULL ? NULL : find_model(engine, name);
    if (model != NULL && ticket >= model->ticket) {
        stale = model->message;
        model->message = message;
        model->state = state;
        model->progress = progress;
    }
    os_unlock(&lock);
    free(stale);
}

/* Called with the lock; jobs that find no memory for their event still end. */
static void fail_engine(struct engine *engine, int32_t result, const char *event, size_t event_length,
                        const char *message) {
    engine->failed = result;
    free(engine->failed_message);
    engine->failed_message = text_copy(message, strlen(message));
    if (engine->failed_message == NULL) engine->failed = ATELICO_INTERNAL;
    for (struct job *job = engine->jobs; job != NULL; job = job->next)
        if (!job->has_ended)
            end_job(engine, job, result, new_event(event, event_length), text_copy(message, strlen(message)));
}

static void host_fail_engine(int64_t handle, int32_t result, const char *event, int64_t event_length,
                             const char *message) {
    os_lock(&lock);
    struct engine *engine = find_engine(handle);
    struct mail *withdrawn = engine == NULL ? NULL : withdraw_mail(handle);
    if (engine != NULL) fail_engine(engine, result, event, (size_t)event_length, message);
    os_unlock(&lock);
    free_mail(withdrawn);
}

static void host_closed(int64_t handle) {
    (void)handle;
    os_lock(&lock);
    n_closing--;
    os_wake_all(&host_changed);
    os_unlock(&lock);
}

static void host_can_be_held(void (*hold)(void)) {
    os_lock(&lock);
    hold_host = hold;
    host_is_ready = 1;
    os_wake_all(&host_changed);
    wait_for_the_end();
    os_unlock(&lock);
}

const struct host_calls *mailbox_host_calls(void) {
    static const struct host_calls calls = {
        .take = host_take,
        .release = host_release,
        .push = host_push,
        .end = host_end,
        .set_model = host_set_model,
        .fail_engine = host_fail_engine,
        .closed = host_closed,
        .guard_exit = add_exit_handler,
        .can_be_held = host_can_be_held,
    };
    return &calls;
}

/* `message` as the content of a JSON string; cut where it does not fit. */
static void escape_json(const char *message, char *out, size_t size) {
    size_t n = 0;
    for (; *message != '\0' && n + 7 < size; message++) {
        unsigned char c = (unsigned char)*message;
        if (c == '"' || c == '\\') n += (size_t)snprintf(out + n, size - n, "\\%c", c);
        else if (c == 0x7F || c < 0x20) n += (size_t)snprintf(out + n, size - n, "\\u%04x", c);
        else out[n++] = (char)c;
    }
    out[n] = '\0';
}

void mailbox_host_failed(const char *why) {
    char message[3200], escaped[8192], event[8400];
    snprintf(message, sizeof message, "The interpreter could not be started: %s", why);
    for (int64_t bad; (bad = text_bad_utf8(message, strlen(message))) >= 0;) message[bad] = '?'; /* a path's bytes */
    escape_json(message, escaped, sizeof escaped);
    int length = snprintf(event, sizeof event,
                          "{\"error\":{\"message\":\"%s\",\"type\":\"server_error\",\"param\":null,"
                          "\"code\":\"init_failed\"},\"atelico\":{\"result\":%d}}",
                          escaped, ATELICO_INIT_FAILED);
    os_lock(&lock);
    host_runs = host_is_ready = 0;
    n_closing = 0; /* nobody is left to close them */
    os_wake_all(&host_changed);
    struct mail *withdrawn = withdraw_mail(0);
    for (int slot = 0; slot < MAX_ENGINES; slot++)
        if (engines[slot] != NULL) fail_engine(engines[slot], ATELICO_INIT_FAILED, event, (size_t)length, message);
    os_unlock(&lock);
    free_mail(withdrawn);
}
