/* Starts the host: finds the interpreter that belongs to this library, loads it and hands it the thread. The library
 * itself does not link Python, so that a missing file is an error with a reason, not a game that does not start. */

#include "home.h"
#include "host.h"
#include "mailbox.h"
#include "os.h"

#include <stdio.h>
#include <string.h>

/* Returns only where the host cannot run. */
static void run_host(char *why, size_t why_size) {
    char folder[4096], reason[1024];
    if (os_own_folder(folder, sizeof folder) != 0) {
        snprintf(why, why_size, "The folder of libatelico cannot be found.");
        return;
    }
    struct host_home *home = home_read(folder, why, why_size);
    if (home == NULL) return;
    /* Global, or NumPy and other extension modules miss the interpreter's symbols. */
    void *python = os_load_library(home->libpython, 1, reason, sizeof reason);
    void *host = python == NULL ? NULL : os_load_library(home->host, 0, reason, sizeof reason);
    os_function entry = host == NULL ? NULL : os_find_function(host, "atelico_host_main");
    if (entry != NULL) {
        ((host_main_function)entry)(home, mailbox_host_calls(), why, why_size);
    } else {
        const char *file = python == NULL ? home->libpython : home->host;
        if (host != NULL) snprintf(reason, sizeof reason, "atelico_host_main is missing");
        snprintf(why, why_size, "%s cannot be loaded: %s. Put back what came with the library.", file, reason);
    }
    home_free(home);
}

static void host_thread(void) {
    char why[3072] = "";
    run_host(why, sizeof why);
    mailbox_host_failed(why);
}

int host_start(void) { return os_start_thread(host_thread); }
