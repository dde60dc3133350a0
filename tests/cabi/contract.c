/* Every function of atelico.h against a real model: what the header promises, statement by statement.
 * Arguments: a file that is named .gguf but is none, which is replaced; a model. Compiles as C99 and as C++17. */
#include "tap.h"

#include <pthread.h>
#include <unistd.h>

static char request[1 << 16], text[1 << 16];

static void test_versions(void) {
    check(atelico_abi_version() == ATELICO_ABI_VERSION, "the library has the header's ABI version");
    check(strchr(atelico_version(), '.') != NULL, "the version is a version");
}

static int all_refuse(atelico_engine *engine) {
    return atelico_load_model(engine, MODEL) == ATELICO_INVALID_HANDLE &&
           atelico_model_state(engine, MODEL, NULL) == ATELICO_INVALID_HANDLE &&
           atelico_chat_completion(engine, "{}", text, sizeof text) == ATELICO_INVALID_HANDLE &&
           atelico_chat_begin(engine, "{}") == ATELICO_INVALID_HANDLE &&
           atelico_chat_poll(engine, 1, text, sizeof text) == ATELICO_INVALID_HANDLE &&
           atelico_chat_cancel(engine, 1) == ATELICO_INVALID_HANDLE && last_error_has("handle");
}

static void test_handles(void) {
    long long foreign[4] = {0};
    atelico_engine *gone = atelico_create(NULL);
    check(gone != NULL, "an engine is made without a configuration");
    atelico_destroy(gone);
    check(all_refuse(NULL), "NULL is no handle");
    check(all_refuse(gone), "a destroyed engine is no handle");
    check(all_refuse((atelico_engine *)(void *)foreign), "a foreign pointer is no handle");
    check(all_refuse((atelico_engine *)(void *)((char *)foreign + 1)), "an odd foreign pointer is no handle");
    atelico_engine *next = atelico_create("");
    check(next != NULL && next != gone, "a new engine has a new handle");
    check(all_refuse(gone), "a destroyed handle stays invalid when its place is taken again");
    atelico_destroy(gone);
    atelico_destroy(NULL);
    atelico_destroy((atelico_engine *)(void *)foreign);
    check(atelico_load_model(next, MODEL) == ATELICO_OK, "destroying what is no engine harms no engine");
    atelico_destroy(next);

    atelico_engine *many[65];
    int made = 0;
    while (made < 65 && (many[made] = atelico_create(NULL)) != NULL) made++;
    check(made == 64 && last_error_has("64"), "the 65th engine is refused with a reason");
    while (made > 0) atelico_destroy(many[--made]);
}

static void test_configuration(void) {
    check(atelico_create("{\"cache_dir\": \"\xff\"}") == NULL && last_error_has("config_json is not valid UTF-8"),
          "a configuration that is not UTF-8 makes no engine");
    size_t size = 2 << 20;
    char *large = (char *)malloc(size);
    memset(large, ' ', size);
    large[size - 1] = '\0';
    check(atelico_create(large) == NULL && last_error_has("config_json"), "a huge configuration makes no engine");
    free(large);

    atelico_engine *engine = atelico_create("{\"n_ctx\": \"many\"}");
    check(engine != NULL, "a wrong field shows up later");
    check(wait_model(engine, MODEL) == ATELICO_INIT_FAILED && last_error_has("n_ctx"),
          "a model's state names the wrong field of the configuration");
    check(atelico_chat_begin(engine, "{}") == ATELICO_INIT_FAILED && last_error_has("n_ctx"),
          "a request names the wrong field of the configuration");
    check(atelico_chat_completion(engine, "{}", NULL, 0) == ATELICO_INIT_FAILED, "a blocking request fails like that");
    atelico_destroy(engine);

    engine = atelico_create("{\"temprature\": 1}");
    int64_t job = atelico_chat_begin(engine, "{}");
    if (job > 0) { /* begun before the configuration was read */
        drain(engine, job, text, sizeof text);
        check(strstr(text, "\"result\":-3") != NULL && strstr(text, "temprature") != NULL,
              "an unknown field is the error event of a request that came first");
    } else {
        check(job == ATELICO_INIT_FAILED && last_error_has("temprature"), "an unknown field fails a request");
    }
    atelico_destroy(engine);
}

static void test_arguments(atelico_engine *engine) {
    check(atelico_load_model(engine, NULL) == ATELICO_INVALID_ARGUMENT && last_error_has("model is NULL"),
          "load_model: NULL");
    check(atelico_model_state(engine, NULL, NULL) == ATELICO_INVALID_ARGUMENT, "model_state: NULL");
    check(atelico_chat_begin(engine, NULL) == ATELICO_INVALID_ARGUMENT && last_error_has("request_json is NULL"),
          "chat_begin: NULL");
    check(atelico_chat_completion(engine, NULL, text, sizeof text) == ATELICO_INVALID_ARGUMENT,
          "chat_completion: NULL request");
    check(atelico_chat_completion(engine, "{}", NULL, 8) == ATELICO_INVALID_ARGUMENT && last_error_has("buf is NULL"),
          "chat_completion: NULL buffer of 8 bytes");
    check(atelico_chat_poll(engine, 1, text, -1) == ATELICO_INVALID_ARGUMENT && last_error_has("negative"),
          "chat_poll: negative length");
    check(atelico_last_error(NULL, 8) == ATELICO_INVALID_ARGUMENT, "last_error: NULL buffer of 8 bytes");
    check(atelico_chat_poll(engine, 0, text, sizeof text) == ATELICO_INVALID_ARGUMENT, "chat_poll: no job 0");
    check(atelico_chat_poll(engine, -5, text, sizeof text) == ATELICO_INVALID_ARGUMENT, "chat_poll: no negative job");
    check(atelico_chat_cancel(engine, (int64_t)1 << 60) == ATELICO_INVALID_ARGUMENT && last_error_has("job"),
          "chat_cancel: unknown job");
}

static void test_utf8(atelico_engine *engine) {
    static const char *const bad[] = {"\xff", "\xc0\x80", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xed\xbf\xbf",
                                      "\xf4\x90\x80\x80", "\x80", "\xf0\x8f\xbf\xbf", "12345678\xe0\x9f\xbf"};
    int refused = 0, count = (int)(sizeof bad / sizeof bad[0]);
    for (int i = 0; i < count; i++)
        refused += atelico_chat_begin(engine, bad[i]) == ATELICO_INVALID_ARGUMENT && last_error_has("UTF-8") &&
                   atelico_load_model(engine, bad[i]) == ATELICO_INVALID_ARGUMENT;
    check(refused == count, "bad bytes, overlong forms and encoded surrogates are refused");

    int32_t n = atelico_chat_completion(
        engine,
        request_for(request, sizeof request, MODEL, "Say it: \\u0000 \\ud83c\\udfae \xf0\x9f\x8e\xae", 30,
                    ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\", \"schema\": "
                    "{\"enum\": [\"\xd0\xbc\xd0\xbe\xd0\xb4 \xe6\x97\xa5 \xf0\x9f\x8e\xae\"]}}}"),
        text, sizeof text);
    check(n > 0 && strstr(text, "\xd0\xbc\xd0\xbe\xd0\xb4 \xe6\x97\xa5 \xf0\x9f\x8e\xae") != NULL,
          "Cyrillic, Japanese and emoji come out as they went in, beside JSON's \\u0000");
    request_for(request, sizeof request, MODEL, "\\ud800", 4, "");
    n = atelico_chat_completion(engine, request, text, sizeof text);
    check(n == ATELICO_INVALID_JSON, "a lone surrogate in JSON is refused");
}

static void test_bad_requests(atelico_engine *engine) {
    check(atelico_chat_completion(engine, "", text, sizeof text) == ATELICO_INVALID_JSON,
          "an empty request is no JSON");
    check(atelico_chat_completion(engine, "{\"model\"", text, sizeof text) == ATELICO_INVALID_JSON && text[0] == '\0' &&
              last_error_has("JSON"),
          "half a request is no JSON");
    size_t size = ((size_t)16 << 20) + 2;
    char *large = (char *)malloc(size);
    memset(large, ' ', size);
    large[size - 1] = '\0';
    check(atelico_chat_begin(engine, large) == ATELICO_INVALID_JSON, "over 16 MB are refused at once");
    memcpy(large, "{\"x\":", 5);
    memset(large + 5, '[', 10000);
    memset(large + 10005, ']', 10000);
    memcpy(large + 20005, "}", 2);
    check(atelico_chat_completion(engine, large, text, sizeof text) == ATELICO_INVALID_JSON,
          "10,000 nested arrays are refused");
    free(large);
    check(atelico_chat_completion(engine, "{\"model\": \"x\"}", text, sizeof text) == ATELICO_INVALID_ARGUMENT &&
              last_error_has("messages"),
          "a missing field is named");
    request_for(request, sizeof request, MODEL, "x", 4,
                ", \"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\", "
                "\"strict\": true, \"schema\": {\"type\": \"nonsense\"}}}");
    check(atelico_chat_completion(engine, request, text, sizeof text) == ATELICO_INVALID_ARGUMENT,
          "a schema that cannot be enforced is refused");
    static char content[12001];
    for (int i = 0; i < 2000; i++) memcpy(content + i * 6, " stone", 6);
    request_for(request, sizeof request, MODEL, content, 4, "");
    check(atelico_chat_completion(engine, request, text, sizeof text) == ATELICO_CONTEXT_OVERFLOW,
          "a prompt longer than the context is refused");
    request_for(request, sizeof request, MODEL, "Hello", 4, "");
    check(atelico_chat_completion(engine, request, text, sizeof text) > 0, "the next request works");
}

static void test_error_event(atelico_engine *engine) {
    request_for(request, sizeof request, "no-such-model", "x", 4, "");
    check(atelico_chat_completion(engine, request, text, sizeof text) == ATELICO_MODEL_NOT_FOUND &&
              last_error_has("no-such-model"),
          "a missing model is named");
    int64_t job = atelico_chat_begin(engine, request);
    int32_t n = wait_event(engine, job, text, 8);
    check(n > 8 && text[0] == '\0', "an error event that does not fit stays");
    check(wait_event(engine, job, text, sizeof text) == n && strncmp(text, "{\"error\":{", 10) == 0 &&
              strstr(text, "\"atelico\":{\"result\":-4}") != NULL,
          "an error is an event with OpenAI's body and the result");
    check(last_error_has("no-such-model"), "the last error explains the event");
    check(atelico_chat_poll(engine, job, text, sizeof text) == ATELICO_DONE, "after the error the job is done");
    check(atelico_chat_poll(engine, job, text, sizeof text) == ATELICO_INVALID_ARGUMENT,
          "a job that is done is forgotten");
    check(atelico_chat_cancel(engine, job) == ATELICO_INVALID_ARGUMENT, "a job that is done cannot be cancelled");
}

static void test_models(atelico_engine *engine, const char *garbage, const char *good) {
    float progress = -1, before = 0;
    int grows = 1;
    check(atelico_model_state(engine, MODEL, &progress) == ATELICO_MODEL_NOT_LOADED, "at first nothing is loaded");
    check(atelico_load_model(engine, MODEL) == ATELICO_OK, "loading starts");
    int32_t state = atelico_model_state(engine, MODEL, &progress);
    check(state == ATELICO_MODEL_LOADING && progress == 0.0f, "the model is loading from the moment of the call");
    while ((state = atelico_model_state(engine, MODEL, &progress)) == ATELICO_MODEL_LOADING) {
        grows = grows && progress >= before && progress <= 1.0f;
        before = progress;
        sleep_ms(5);
    }
    check(state == ATELICO_MODEL_READY && progress == 1.0f && grows,
          "the progress grows to 1, then the model is ready");
    check(atelico_load_model(engine, MODEL) == ATELICO_OK && wait_model(engine, MODEL) == ATELICO_MODEL_READY,
          "loading it again does nothing");
    check(wait_model(engine, "in-memory::" MODEL) == ATELICO_MODEL_READY, "the other spelling is the same model");

    check(atelico_load_model(engine, "no-such-model") == ATELICO_OK &&
              wait_model(engine, "no-such-model") == ATELICO_MODEL_NOT_FOUND && last_error_has("no-such-model"),
          "a missing model shows up in its state");
    check(atelico_load_model(engine, garbage) == ATELICO_OK && wait_model(engine, garbage) == ATELICO_INIT_FAILED,
          "a file that is no model shows up in its state");
    remove(garbage);
    check(symlink(good, garbage) == 0 && atelico_load_model(engine, garbage) == ATELICO_OK &&
              wait_model(engine, garbage) == ATELICO_MODEL_READY,
          "once the file is mended, loading it again works");
    request_for(request, sizeof request, MODEL, "Hello", 4, "");
    check(atelico_chat_completion(engine, request, text, sizeof text) > 0, "the good model still answers");
}

/* The text of "id", which is another one in every answer. */
static void read_id(const char *json, char *id) {
    const char *at = strstr(json, "\"id\":\"");
    id[0] = '\0';
    if (at != NULL) sscanf(at + 6, "%63[^\"]", id);
}

static void *ask_the_same(void *engine) {
    static char other[1 << 16];
    atelico_chat_completion((atelico_engine *)engine, request, other, sizeof other);
    return other;
}

static void test_answer_buffers(atelico_engine *engine) {
    char id[64], again[64];
    pthread_t thread;
    void *other;
    int exact = 1, untouched = 1, empty = 1;
    request_for(request, sizeof request, MODEL, "Hello there", 6, "");
    int32_t n = atelico_chat_completion(engine, request, NULL, 0);
    check(n > 0, "without a buffer the answer's length is returned");
    for (int32_t size = 0; size <= n; size++) {
        memset(text, '#', sizeof text);
        exact = exact && atelico_chat_completion(engine, request, text, size) == n;
        empty = empty && (size == 0 || text[0] == '\0');
        untouched = untouched && text[size] == '#' && text[size + 1] == '#' && text[n] == '#';
    }
    check(exact, "every length from 0 to the text's own returns the needed one");
    check(empty, "a buffer that is too small holds an empty string");
    check(untouched, "nothing is written past the end");
    pthread_create(&thread, NULL, ask_the_same, (void *)engine);
    pthread_join(thread, &other);
    memset(text, '#', sizeof text);
    check(atelico_chat_completion(engine, request, text, n + 1) == n && strlen(text) == (size_t)n &&
              text[n - 1] == '}' && text[n + 1] == '#',
          "one byte more takes the whole answer");
    read_id(text, id);
    read_id((const char *)other, again);
    check(strncmp(id, "chatcmpl-", 9) == 0 && again[0] != '\0' && strcmp(id, again) != 0,
          "another thread with the same request gets an answer of its own");
    atelico_chat_completion(engine, request, text, sizeof text);
    read_id(text, again);
    check(strcmp(id, again) != 0, "an answer that was delivered is not kept");
    atelico_chat_completion(engine, request, NULL, 0);
    atelico_chat_completion(engine, "{}", NULL, 0);
    check(atelico_chat_completion(engine, request, text, sizeof text) > 0, "asking something else drops what was kept");
}

static void test_event_buffers(atelico_engine *engine) {
    int exact = 1, untouched = 1;
    request_for(request, sizeof request, MODEL, "Hello", 6, "");
    int64_t job = atelico_chat_begin(engine, request);
    check(job > 0, "a job has a positive id");
    int32_t n = wait_event(engine, job, NULL, 0);
    check(n > 0, "without a buffer the event's length is returned");
    for (int32_t size = 0; size <= n; size++) {
        memset(text, '#', sizeof text);
        exact = exact && atelico_chat_poll(engine, job, text, size) == n;
        untouched = untouched && text[size] == '#' && text[size + 1] == '#';
    }
    check(exact && untouched, "an event stays until it fits, and nothing is written past the end");
    check(atelico_chat_poll(engine, job, text, n + 1) == n && strlen(text) == (size_t)n &&
              strstr(text, "chat.completion.chunk") != NULL && strstr(text, "\"role\":\"assistant\"") != NULL,
          "the first event is the chunk with the role");
    atelico_engine *other = atelico_create(CONFIG);
    check(atelico_chat_poll(other, job, text, sizeof text) == ATELICO_INVALID_ARGUMENT, "a job belongs to its engine");
    atelico_destroy(other);
    int32_t events = drain(engine, job, text, sizeof text);
    check(events >= 2 && strstr(text, "\"finish_reason\":\"") != NULL && strstr(text, "\"tokens_per_second\":") != NULL,
          "the last event has the finish reason and atelico's timings");
}

static void test_cancel(atelico_engine *engine) {
    request_for(request, sizeof request, MODEL, "Tell a very long story.", 600, "");
    int64_t job = atelico_chat_begin(engine, request);
    check(atelico_chat_cancel(engine, job) == ATELICO_OK && atelico_chat_cancel(engine, job) == ATELICO_OK,
          "cancelled twice in the tick of its begin");
    check(drain(engine, job, text, sizeof text) <= 3 && strstr(text, "\"finish_reason\":\"cancelled\"") != NULL,
          "it ends as cancelled, with hardly any text");
    job = atelico_chat_begin(engine, request);
    for (int i = 0; i < 4; i++) wait_event(engine, job, text, sizeof text);
    check(atelico_chat_cancel(engine, job) == ATELICO_OK, "cancelled while it talks");
    check(drain(engine, job, text, sizeof text) >= 1 && strstr(text, "\"finish_reason\":\"cancelled\"") != NULL,
          "it ends as cancelled soon");
    request_for(request, sizeof request, MODEL, "Hello", 1, "");
    job = atelico_chat_begin(engine, request);
    while (strstr(text, "\"finish_reason\":\"length\"") == NULL)
        if (wait_event(engine, job, text, sizeof text) < 0) break;
    check(atelico_chat_cancel(engine, job) == ATELICO_OK, "cancelling a job that has ended is no error");
    check(wait_event(engine, job, text, sizeof text) == ATELICO_DONE, "and changes nothing");
}

static void *last_error_of_thread(void *engine) {
    static int is_own;
    char why[64];
    is_own = atelico_last_error(why, sizeof why) == 0 && why[0] == '\0';
    is_own = is_own && atelico_chat_begin((atelico_engine *)engine, NULL) < 0 && last_error_has("request_json");
    return &is_own;
}

static void test_last_error(atelico_engine *engine) {
    char why[4096];
    pthread_t thread;
    void *is_own;
    atelico_load_model(engine, NULL);
    int32_t n = atelico_last_error(why, sizeof why);
    check(n == (int32_t)strlen(why) && n > 0, "the last error's length is returned");
    check(atelico_last_error(why, 4) == n && why[0] == '\0', "and its text only where it fits");
    pthread_create(&thread, NULL, last_error_of_thread, (void *)engine);
    pthread_join(thread, &is_own);
    check(*(int *)is_own, "another thread has an error of its own, none at first");
    check(last_error_has("model is NULL"), "which leaves this thread's alone");
}

static void test_limits(void) {
    char name[32];
    int32_t result = 0;
    int64_t job = 0;
    int names = 0, jobs = 0;
    atelico_engine *engine = atelico_create(CONFIG);
    for (; names < 2000; names++) {
        snprintf(name, sizeof name, "n%d", names);
        result = atelico_model_state(engine, name, NULL);
        if (result == ATELICO_BUSY) break;
    }
    check(names == 1024 && result == ATELICO_BUSY, "the 1,025th model name is refused");
    request_for(request, sizeof request, "no-such-model", "x", 4, "");
    while (jobs < 5000 && (job = atelico_chat_begin(engine, request)) > 0) jobs++;
    check(jobs == 4096 && job == ATELICO_BUSY && last_error_has("4096"), "the 4,097th open job is refused");
    atelico_destroy(engine);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    test_versions();
    test_handles();
    test_configuration();
    atelico_engine *engine = atelico_create(CONFIG);
    test_models(engine, argv[1], argv[2]);
    test_arguments(engine);
    test_utf8(engine);
    test_bad_requests(engine);
    test_error_event(engine);
    test_answer_buffers(engine);
    test_event_buffers(engine);
    test_cancel(engine);
    test_last_error(engine);
    atelico_destroy(engine);
    test_limits();
    return tap_end();
}
