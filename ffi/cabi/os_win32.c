/* os.h for Windows. Not built or run so far: no Windows machine was at hand. */

#if defined(_WIN32)

#include "os.h"

#include <stdio.h>
#include <string.h>

void os_lock(os_mutex *mutex) { AcquireSRWLockExclusive(mutex); }

void os_unlock(os_mutex *mutex) { ReleaseSRWLockExclusive(mutex); }

void os_condition_init(os_condition *condition) { InitializeConditionVariable(condition); }

void os_condition_free(os_condition *condition) { (void)condition; }

void os_wait(os_condition *condition, os_mutex *mutex) { SleepConditionVariableSRW(condition, mutex, INFINITE, 0); }

void os_wait_for(os_condition *condition, os_mutex *mutex, int milliseconds) {
    SleepConditionVariableSRW(condition, mutex, (DWORD)milliseconds, 0);
}

void os_wake_all(os_condition *condition) { WakeAllConditionVariable(condition); }

double os_now_ms(void) {
    LARGE_INTEGER now, frequency;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    return (double)now.QuadPart * 1e3 / (double)frequency.QuadPart;
}

static DWORD WINAPI trampoline(LPVOID run) {
    ((void (*)(void))run)();
    return 0;
}

int os_start_thread(void (*run)(void)) {
    const DWORD flags = STACK_SIZE_PARAM_IS_A_RESERVATION;
    HANDLE thread = CreateThread(NULL, (SIZE_T)8 << 20, trampoline, (LPVOID)run, flags, NULL);
    if (thread == NULL) return -1;
    CloseHandle(thread);
    return 0;
}

void os_at_exit(void (*run)(void)) { (void)run; }

void os_at_exit_of_thread(void (*run)(void)) { (void)run; }

int os_own_folder(char *folder, size_t size) {
    static const char anchor = 0;
    wchar_t path[32768];
    HMODULE self;
    /* PIN: the host thread runs in this library for ever, so it must never be unloaded. */
    if (!GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN, (LPCWSTR)&anchor,
                            &self))
        return -1;
    DWORD length = GetModuleFileNameW(self, path, 32768);
    if (length == 0 || length == 32768) return -1;
    if (WideCharToMultiByte(CP_UTF8, 0, path, -1, folder, (int)size, NULL, NULL) == 0) return -1;
    char *slash = strrchr(folder, '\\');
    if (slash == NULL) return -1;
    *slash = '\0';
    return 0;
}

int os_is_absolute(const char *path) {
    return path[0] == '\\' || path[0] == '/' || (path[0] != '\0' && path[1] == ':');
}

void *os_load_library(const char *path, int global, char *why, size_t why_size) {
    wchar_t wide[32768];
    (void)global; /* Windows binds imports by library name */
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, 32768) == 0) {
        snprintf(why, why_size, "the path is too long");
        return NULL;
    }
    void *library = (void *)LoadLibraryExW(wide, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    if (library == NULL) snprintf(why, why_size, "Windows error %lu", (unsigned long)GetLastError());
    return library;
}

os_function os_find_function(void *library, const char *name) {
    return (os_function)GetProcAddress((HMODULE)library, name);
}

#else
typedef int atelico_os_win32_is_empty_here; /* ISO C wants a declaration in every file */
#endif
