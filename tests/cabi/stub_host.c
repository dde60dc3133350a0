/* A host without Python: answers mail at once, from two threads, so that the mailbox can be run under sanitizers.
 * A request that starts with "fail" fails, one that starts with "slow" runs until it is cancelled, all others are echoed.
 * A configuration "bad" makes no engine. */
#include "host.h"
#include "mailbox.h"
#include "os.h"

#include <string.h>

static const char failure[] = "{\"error\":{}}";

static void stream(const struct host_calls *calls, const struct host_mail *mail) {
    if (strncmp(mail->text, "slow", 4) == 0) {
        calls->push(mail->engine, mail->job, mail->text, mail->length);
        return;
    }
    if (strncmp(mail->text, "fail", 4) == 0) {
        calls->end(mail->engine, mail->job, -5, failure, sizeof failure - 1, "The stub failed.");
        return;
    }
    int n_events = mail->kind == HOST_STREAM ? 3 : 1;
    for (int i = 0; i < n_events; i++) calls->push(mail->engine, mail->job, mail->text, mail->length);
    calls->end(mail->engine, mail->job, 0, NULL, 0, NULL);
}

static void run(void) {
    const struct host_calls *calls = mailbox_host_calls();
    struct host_mail mail;
    calls->guard_exit();
    for (;;) {
        calls->take(&mail);
        switch (mail.kind) {
            case HOST_CREATE:
                if (strcmp(mail.text, "bad") == 0)
                    calls->fail_engine(mail.engine, -3, failure, sizeof failure - 1, "The configuration is bad.");
                break;
            case HOST_DESTROY: calls->closed(mail.engine); break;
            case HOST_LOAD:
                calls->set_model(mail.engine, mail.text, mail.ticket, 1, 0.5f, "");
                calls->set_model(mail.engine, mail.text, mail.ticket, 2, 1.0f, "");
                break;
            case HOST_WATCH: calls->set_model(mail.engine, mail.text, mail.ticket, -4, 0.0f, "There is none."); break;
            case HOST_STREAM:
            case HOST_COMPLETE: stream(calls, &mail); break;
            case HOST_CANCEL: calls->end(mail.engine, mail.job, 0, NULL, 0, NULL); break;
            default: break;
        }
        calls->release(&mail);
    }
}

int host_start(void) { return os_start_thread(run) == 0 ? os_start_thread(run) : -1; }
