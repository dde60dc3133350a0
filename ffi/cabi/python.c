/* The host's own library: starts CPython in this process and enters the host's Python. Compiled together with the code
 * that cffi writes (build.py); only this library links the interpreter. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "host.h"

#include <stdio.h>
#include <string.h>

#if defined(_WIN32)
#  define HOST_EXPORT __declspec(dllexport)
#else
#  define HOST_EXPORT __attribute__((visibility("default")))
#endif

/* What the functions of the cffi module call; set before it is entered. */
const struct host_calls *atelico_calls;

/* Whether this library started the interpreter, so that nobody else uses it. */
int atelico_owns_interpreter;

/* The cffi entry point: runs atelico.cabi.host until the process ends. */
extern void atelico_enter_host(void);

HOST_EXPORT void atelico_host_main(const struct host_home *home, const struct host_calls *calls, char *why,
                                   size_t why_size);

static PyStatus set_text(PyConfig *config, wchar_t **field, const char *utf8) {
    return PyConfig_SetBytesString(config, field, utf8);
}

static PyStatus append_path(PyConfig *config, const char *utf8) {
    wchar_t *wide = Py_DecodeLocale(utf8, NULL); /* UTF-8, by the preconfiguration */
    if (wide == NULL) return PyStatus_NoMemory();
    PyStatus status = PyWideStringList_Append(&config->module_search_paths, wide);
    PyMem_RawFree(wide);
    return status;
}

/* Every path is given, so that nothing is guessed from PATH, the environment or a pyvenv.cfg nearby. */
static PyStatus configure(PyConfig *config, const struct host_home *home) {
    struct {
        wchar_t **field;
        const char *value;
    } const paths[] = {
        {&config->program_name, home->executable},     {&config->executable, home->executable},
        {&config->base_executable, home->executable},  {&config->home, home->base_prefix},
        {&config->prefix, home->prefix},               {&config->exec_prefix, home->prefix},
        {&config->base_prefix, home->base_prefix},     {&config->base_exec_prefix, home->base_prefix},
    };
    config->site_import = 0;         /* no .pth files, no sitecustomize */
    config->write_bytecode = 0;      /* nothing is written into the game's folder */
    config->pathconfig_warnings = 0; /* nothing is printed */
    config->module_search_paths_set = 1;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        PyStatus status = set_text(config, paths[i].field, paths[i].value);
        if (PyStatus_Exception(status)) return status;
    }
    for (size_t i = 0; i < home->n_path; i++) {
        PyStatus status = append_path(config, home->path[i]);
        if (PyStatus_Exception(status)) return status;
    }
    return PyStatus_Ok();
}

/* Start CPython and give up the GIL. The isolated configuration ignores the environment and leaves signals, locale and
 * C streams alone. 0: it runs. */
static int start_python(const struct host_home *home, char *why, size_t why_size) {
    static PyStatus first_failure; /* CPython cannot be started again after it has failed once */
    PyPreConfig before;
    PyConfig config;
    PyStatus status = first_failure;
    if (!PyStatus_Exception(status)) {
        PyPreConfig_InitIsolatedConfig(&before);
        before.utf8_mode = 1; /* paths are UTF-8 whatever the host's locale is */
        status = Py_PreInitialize(&before);
    }
    if (!PyStatus_Exception(status)) {
        PyConfig_InitIsolatedConfig(&config);
        status = configure(&config, home);
        if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
        PyConfig_Clear(&config);
    }
    if (PyStatus_Exception(status)) {
        first_failure = status;
        const char *reason = status.err_msg != NULL ? status.err_msg : "unknown reason";
        snprintf(why, why_size, "CPython did not start: %s.", reason);
        return -1;
    }
    PyEval_SaveThread();
    return 0;
}

/* Every thread of the interpreter stops at its next need of the GIL. */
static void hold_python(void) { PyGILState_Ensure(); }

/* The pending exception in words. Called with the GIL; clears it. */
static void describe_exception(char *why, size_t why_size) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = value == NULL ? NULL : PyObject_Str(value);
    const char *utf8 = text == NULL ? NULL : PyUnicode_AsUTF8(text);
    snprintf(why, why_size, "the engine cannot be imported: %s: %s. Put back what came with the library.",
             type == NULL ? "error" : ((PyTypeObject *)type)->tp_name, utf8 != NULL ? utf8 : "no message");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

/* A host that runs Python itself has its own sys.path: ours comes after it. Called with the GIL. */
static void extend_sys_path(const struct host_home *home) {
    PyObject *paths = PySys_GetObject("path");
    for (size_t i = 0; paths != NULL && i < home->n_path; i++) {
        PyObject *path = PyUnicode_DecodeFSDefault(home->path[i]);
        if (path != NULL && PySequence_Contains(paths, path) == 0) PyList_Append(paths, path);
        Py_XDECREF(path);
    }
    PyErr_Clear();
}

/* cffi prints what goes wrong while it starts; importing first leaves nothing to go wrong. 0: imported. */
static int import_engine(const struct host_home *home, char *why, size_t why_size) {
    static const char *const modules[] = {"_cffi_backend", "atelico.cabi.host"};
    PyGILState_STATE gil = PyGILState_Ensure();
    int failed = 0;
    if (!atelico_owns_interpreter) extend_sys_path(home);
    for (size_t i = 0; !failed && i < sizeof modules / sizeof modules[0]; i++) {
        PyObject *module = PyImport_ImportModule(modules[i]);
        failed = module == NULL;
        Py_XDECREF(module);
    }
    if (failed) describe_exception(why, why_size);
    PyGILState_Release(gil);
    return failed ? -1 : 0;
}

void atelico_host_main(const struct host_home *home, const struct host_calls *calls, char *why, size_t why_size) {
    atelico_calls = calls;
    if (!Py_IsInitialized()) {
        if (start_python(home, why, why_size) != 0) return;
        atelico_owns_interpreter = 1;
        calls->can_be_held(hold_python);
    }
    if (import_engine(home, why, why_size) != 0) return;
    atelico_enter_host();
    snprintf(why, why_size, "the host ended for a defect of atelico; see the log (ATELICO_LOG_FILE).");
}
