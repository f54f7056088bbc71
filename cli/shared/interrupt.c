/* Signals that ask a training to stop: a flag that the training loops of all ranks look at after each
 * step. */
#include <signal.h>
#include <stdatomic.h>

#include "cli/shared/cli.h"

static atomic_bool stop;

static void on_signal(int number)
{
    (void)number;
    stop = true;
}

/* A terminal that is closed may send SIGHUP more than once, and nohup has it ignored. */
static void catch_hangup(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

void interrupt_catch(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND | SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    catch_hangup();
    signal(SIGPIPE, SIG_IGN);
}

bool interrupted(void)
{
    return stop;
}
