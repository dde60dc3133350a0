/* atelico: a small language model inside a game. The C interface of libatelico.
 *
 * UTF-8 JSON in, UTF-8 JSON out, an opaque handle, integer results, the caller's buffers. No callbacks: a game polls
 * once a frame. C99 and C++11; link with -latelico.
 *
 *     atelico_engine *engine = atelico_create(NULL);
 *     int64_t job = atelico_chat_begin(engine, "{\"model\": \"SmolLM2-135M-Instruct\", \"messages\": [...]}");
 *
 *     static char text[65536];                        // each frame:
 *     int32_t n = atelico_chat_poll(engine, job, text, sizeof text);
 *     if (n >= 0) show(text);                         // a chunk, or {"error": ...}
 *     else if (n == ATELICO_DONE) job = 0;            // ATELICO_EMPTY: nothing new, ask again next frame
 *
 *     atelico_destroy(engine);
 *
 * Threads. Every function may be called from any thread at any time, also on one engine from many threads at once.
 * All of them return at once, whatever is loading or generating, except atelico_chat_completion, which waits for its
 * answer. fork() is not supported once an engine has been created: the child must exec or exit.
 *
 * Strings in. NUL-terminated UTF-8, read before the function returns; the library keeps no pointer of yours.
 * JSON's \u0000 is fine. What is not UTF-8 (an encoded surrogate, say) is ATELICO_INVALID_ARGUMENT.
 *
 * Buffers out. A function that fills `buf` returns the length of the whole text in bytes, without its NUL. It fits when
 * that is less than `buf_len`: `buf` then holds the text and a NUL. Otherwise `buf` holds an empty string (nothing at
 * all where `buf_len` is 0), the text stays where it was, and the same call with a larger buffer gets it. NULL with
 * a `buf_len` of 0 asks for the length. Nothing is ever written at or past buf + buf_len.
 *
 * Handles. NULL, a destroyed engine or a pointer from elsewhere give ATELICO_INVALID_HANDLE, never a crash.
 *
 * The host's process. Signals, locale, floating-point environment and standard streams are left alone, and nothing is
 * printed. The library stays in memory once loaded, also after dlclose. Its log goes to the file that the environment
 * variable ATELICO_LOG_FILE names, if any.
 */

#ifndef ATELICO_H
#define ATELICO_H

#include <stdint.h>

#if defined(_WIN32)
#  if defined(ATELICO_BUILD)
#    define ATELICO_API __declspec(dllexport)
#  else
#    define ATELICO_API __declspec(dllimport)
#  endif
#elif defined(__GNUC__)
#  define ATELICO_API __attribute__((visibility("default")))
#else
#  define ATELICO_API
#endif

#if defined(__cplusplus)
extern "C" {
#endif

/* The interface this header describes. It grows only when existing calls change their meaning; compare it with
 * atelico_abi_version() where the library is loaded by hand. */
#define ATELICO_ABI_VERSION 1

/* Results. Not negative: success, and a length, a state or an id where the function says so. */
enum atelico_result {
    ATELICO_OK = 0,
    ATELICO_INVALID_HANDLE = -1,    /* not a living engine */
    ATELICO_INVALID_ARGUMENT = -2,  /* a NULL or bad argument, or a request field with a wrong value */
    ATELICO_INIT_FAILED = -3,       /* the library, its configuration or the model could not be loaded */
    ATELICO_MODEL_NOT_FOUND = -4,   /* no model of this name */
    ATELICO_INFERENCE_FAILED = -5,  /* the model failed while it ran */
    ATELICO_DONE = -6,              /* poll only: the job has ended and is forgotten */
    ATELICO_EMPTY = -7,             /* poll only: nothing new yet */
    ATELICO_INVALID_JSON = -8,      /* the request is not JSON, too large (16 MB) or nested too deeply */
    ATELICO_CONTEXT_OVERFLOW = -9,  /* the messages do not fit the model's context */
    ATELICO_CANCELLED = -10,        /* cancelled before there was an answer */
    ATELICO_BUSY = -11,             /* too many engines, requests or model names; try again later */
    ATELICO_SHUTTING_DOWN = -12,    /* the engine was destroyed while the call ran */
    ATELICO_INTERNAL = -99          /* a defect of atelico, or out of memory */
};

/* What atelico_model_state returns; a failure is a negative result instead. */
enum atelico_model_state_value {
    ATELICO_MODEL_NOT_LOADED = 0,  /* nobody has asked for it, or the library has not looked yet */
    ATELICO_MODEL_LOADING = 1,
    ATELICO_MODEL_READY = 2
};

/* One engine: a configuration and the models it has loaded. */
typedef struct atelico_engine atelico_engine;

/* The ATELICO_ABI_VERSION the library was built with. */
ATELICO_API int32_t atelico_abi_version(void);

/* The library's version, such as "0.1.0". A constant of the library: do not free it. */
ATELICO_API const char *atelico_version(void);

/* Make an engine. Returns at once; the library starts up behind it, and requests may be begun immediately.
 *
 * config_json: NULL or "" for the defaults, else a JSON object with any of the fields
 *     "model_folders": ["..."]   folders searched for .gguf files; relative ones start at the working directory
 *     "aliases": {"npc": "..."}  names of your own for models
 *     "n_ctx", "n_threads", "n_gpu_layers", "n_batch", "max_draft", "max_queue", "cache_dir"
 * Returns NULL where it is not UTF-8, is over 1 MB, where 64 engines live, or where memory or threads are exhausted:
 *     atelico_last_error says which. A wrong field, or a library that cannot start, shows up later:
 *     every request and model of the engine then fails with ATELICO_INIT_FAILED and the reason.
 * Ownership: yours until atelico_destroy. */
ATELICO_API atelico_engine *atelico_create(const char *config_json);

/* End an engine. Returns at once in every state, also while a model loads or generates; its memory is freed shortly
 * after. Calls of other threads that wait on it return ATELICO_SHUTTING_DOWN; its jobs are gone.
 * NULL, destroyed and foreign handles are ignored. */
ATELICO_API void atelico_destroy(atelico_engine *engine);

/* Start loading a model and return at once, so that the first request need not wait. Optional: requests load what they
 * need. Loading again a model that is loaded or loading does nothing; one that failed is tried again.
 *
 * model: a name as in a request: "org/name" or a file's stem below the model folders, a path to a .gguf, an alias;
 *     with or without "in-memory::".
 * Returns ATELICO_OK, or ATELICO_INVALID_HANDLE, ATELICO_INVALID_ARGUMENT, ATELICO_INIT_FAILED, ATELICO_BUSY (over
 *     1,024 names). A model that does not exist or does not load shows up in atelico_model_state. */
ATELICO_API int32_t atelico_load_model(atelico_engine *engine, const char *model);

/* How far the loading of a model is; also of one that a request loads.
 *
 * progress: receives the share that is loaded, 0 to 1; may be NULL.
 * Returns ATELICO_MODEL_NOT_LOADED, _LOADING or _READY, or the negative result of a failure (ATELICO_MODEL_NOT_FOUND,
 *     ATELICO_INIT_FAILED, ...), which atelico_last_error then explains. The first call for a name may return
 *     ATELICO_MODEL_NOT_LOADED because the library has yet to look: ask again next frame.
 *
 *     float share;
 *     if (atelico_model_state(engine, "npc", &share) == ATELICO_MODEL_LOADING) draw_bar(share); */
ATELICO_API int32_t atelico_model_state(atelico_engine *engine, const char *model, float *progress);

/* Answer a request and wait for it. Not for the game's main thread: it takes as long as the model does.
 *
 * request_json: an OpenAI chat completion request; see docs/requests.md. "stream" makes no difference.
 * Returns the length of the response JSON (see "Buffers out"), or a negative result that atelico_last_error explains.
 * An answer that did not fit is kept for this thread until it asks this engine the same text again, which does not
 *     generate anew, or something else, which drops it.
 *
 *     int32_t n = atelico_chat_completion(engine, request, buf, buf_len);
 *     if (n >= buf_len) { buf = realloc(buf, n + 1); n = atelico_chat_completion(engine, request, buf, n + 1); } */
ATELICO_API int32_t atelico_chat_completion(atelico_engine *engine, const char *request_json, char *buf,
                                            int32_t buf_len);

/* Start a request and return at once. "stream" makes no difference.
 *
 * Returns a job's id, greater than 0 and never used again in this process; or ATELICO_INVALID_HANDLE,
 *     ATELICO_INVALID_ARGUMENT, ATELICO_INVALID_JSON (over 16 MB), ATELICO_INIT_FAILED, ATELICO_BUSY (4,096 jobs that
 *     are not done), ATELICO_INTERNAL. What else is wrong with the request comes as the job's error event.
 * Ownership: the library keeps a job until atelico_chat_poll has returned ATELICO_DONE for it, or its engine is
 *     destroyed. So poll every job to the end, cancelled ones too. */
ATELICO_API int64_t atelico_chat_begin(atelico_engine *engine, const char *request_json);

/* The next event of a job. Returns at once.
 *
 * Returns the length of the event's text (see "Buffers out"); an event that fits is taken off the queue;
 *     ATELICO_EMPTY: no event is waiting; the job goes on;
 *     ATELICO_DONE: it has ended and every event was delivered. The id is forgotten: polling it again is an error;
 *     ATELICO_INVALID_ARGUMENT: no such job of this engine; ATELICO_INVALID_HANDLE.
 * An event is one JSON text:
 *     a chat completion chunk, {"object": "chat.completion.chunk", "choices": [{"delta": {"content": "..."}}], ...};
 *         the last one carries "atelico" (speculation, timings);
 *     or, as the job's last event, {"error": {"message", "type", "param", "code"}, "atelico": {"result": -4}} with the
 *         result that atelico_chat_completion would have returned; atelico_last_error has the message then. */
ATELICO_API int32_t atelico_chat_poll(atelico_engine *engine, int64_t job, char *buf, int32_t buf_len);

/* Stop a job as soon as possible, at any time after its begin, also repeatedly. Its text so far stays: the last chunk
 * has the finish_reason "cancelled", then comes ATELICO_DONE.
 *
 * Returns ATELICO_OK, also for a job that has ended but is not yet polled to ATELICO_DONE; ATELICO_INVALID_ARGUMENT: no
 *     such job of this engine; ATELICO_INVALID_HANDLE. */
ATELICO_API int32_t atelico_chat_cancel(atelico_engine *engine, int64_t job);

/* What was wrong in the last call of this thread that failed, and what to do about it; one or two sentences, at most
 * 4,095 bytes. Successful calls, ATELICO_EMPTY and ATELICO_DONE leave it as it was.
 *
 * Returns the text's length (see "Buffers out"), 0 where no call of this thread has failed. */
ATELICO_API int32_t atelico_last_error(char *buf, int32_t buf_len);

#if defined(__cplusplus)
}
#endif

#endif
