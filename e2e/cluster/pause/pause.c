/* Holds namespaces open and reaps orphans until SIGTERM: the pod's pause container, and the first
 * process of a node. Built static, so that it runs in an empty image. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int number) { (void)number; _exit(0); }

static void reap(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void) {
    struct sigaction on_stop = {.sa_handler = stop};
    struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
    if (sigaction(SIGTERM, &on_stop, NULL) || sigaction(SIGINT, &on_stop, NULL) ||
        sigaction(SIGCHLD, &on_child, NULL))
        return EXIT_FAILURE;
    for (;;)
        pause();
}
