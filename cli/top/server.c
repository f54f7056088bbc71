/* A small server for Prometheus: GET /metrics, one connection at a time. It listens on 127.0.0.1 unless another address
 * is given. A request may have 8 KiB and take two seconds. */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/top/output.h"

enum { MOST_REQUEST = 8192, MOST_MILLISECONDS = 2000, TICK = 500 };

/* ---- the target ---- */

static bool is_port(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) <= 5 && atoi(text) <= 65535;
}

/* "[::1]:9400" has its address in brackets. */
static bool take_address(const char *text, size_t length, top_target *out)
{
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (!length || length >= sizeof out->address)
        return false;
    memcpy(out->address, text, length);
    out->address[length] = 0;
    return true;
}

bool top_target_parse(const char *text, top_target *out)
{
    const char *colon = strrchr(text, ':'), *port = colon ? colon + 1 : text;
    *out = (top_target){.address = "127.0.0.1"};
    if (strchr(text, '/') || (!colon && strspn(text, "0123456789") != strlen(text))) {
        out->file = text;
        return true;
    }
    if (!is_port(port) || (colon && !take_address(text, (size_t)(colon - text), out))) {
        complain("--prometheus wants a port from 0 to 65535, an address with a port such as 0.0.0.0:9400, or a file, "
                 "not '%s'; ./%s is a file",
                 text, text);
        return false;
    }
    snprintf(out->port, sizeof out->port, "%s", port);
    return true;
}

/* ---- answers ---- */

/* True when the socket is ready before the time is up, without an interrupt. */
static bool wait_for(int socket, short events, double until)
{
    while (!interrupted()) {
        const double  left = (until - clock_seconds()) * 1e3;
        struct pollfd p = {.fd = socket, .events = events};
        if (left <= 0)
            return false;
        const int ready = poll(&p, 1, left < TICK ? (int)left + 1 : TICK);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return false;
    }
    return false;
}

static void send_all(int socket, const char *text, size_t size, double until)
{
    while (size && wait_for(socket, POLLOUT, until)) {
        const ssize_t sent = send(socket, text, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return;
        text += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
}

static void answer(int socket, const char *status, const char *more, const char *body, size_t size, bool head)
{
    const double until = clock_seconds() + MOST_MILLISECONDS / 1e3;
    char         text[512];
    snprintf(text, sizeof text,
             "HTTP/1.1 %s\r\n%sContent-Length: %zu\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n", status,
             more, size);
    send_all(socket, text, strlen(text), until);
    if (!head)
        send_all(socket, body, size, until);
}

#define PLAIN "Content-Type: text/plain; charset=utf-8\r\n"

static void answer_text(int socket, const char *status, const char *more, const char *body)
{
    answer(socket, status, more, body, strlen(body), false);
}

static void answer_metrics(int socket, top_model *m, bool head)
{
    size_t size = 0;
    char  *text = top_model_read(m) ? top_metrics(m, &size) : NULL;
    if (text)
        answer(socket, "200 OK", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", text, size, head);
    else
        answer_text(socket, "500 Internal Server Error", PLAIN, "the devices could not be read\n");
    free(text);
}

/* ---- requests ---- */

/* The bytes up to the empty line, as a text; 0 if they do not come in time, -1 if they are too many. */
static int read_request(int socket, char out[MOST_REQUEST + 1])
{
    const double until = clock_seconds() + MOST_MILLISECONDS / 1e3;
    size_t       used = 0;
    while (used < MOST_REQUEST && wait_for(socket, POLLIN, until)) {
        const ssize_t got = recv(socket, out + used, MOST_REQUEST - used, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return 0;
        used += got > 0 ? (size_t)got : 0;
        out[used] = 0;
        if (strstr(out, "\r\n\r\n") || strstr(out, "\n\n"))
            return (int)used;
    }
    return used == MOST_REQUEST ? -1 : 0;
}

/* The target without its query. */
static bool is_metrics(const char *target, size_t length)
{
    const char *query = memchr(target, '?', length);
    length = query ? (size_t)(query - target) : length;
    return length == strlen("/metrics") && !strncmp(target, "/metrics", length);
}

/* "GET /metrics HTTP/1.1". */
static void answer_request(int socket, top_model *m, const char *request)
{
    const size_t method = strcspn(request, " \r\n");
    const char  *target = request + method + (request[method] == ' ');
    const size_t length = strcspn(target, " \r\n");
    const bool   head = method == 4 && !strncmp(request, "HEAD", 4);
    if (!method || !length || strncmp(target + length, " HTTP/1.", 8) != 0)
        answer_text(socket, "400 Bad Request", PLAIN, "this is not a request of HTTP/1.1\n");
    else if (!is_metrics(target, length))
        answer_text(socket, "404 Not Found", PLAIN, "the metrics of haul top are at /metrics\n");
    else if (!head && (method != 3 || strncmp(request, "GET", 3) != 0))
        answer_text(socket, "405 Method Not Allowed", "Allow: GET, HEAD\r\n" PLAIN, "GET is expected\n");
    else
        answer_metrics(socket, m, head);
}

static void talk(int socket, top_model *m)
{
    char      request[MOST_REQUEST + 1];
    const int size = read_request(socket, request);
    if (size > 0)
        answer_request(socket, m, request);
    else if (size < 0)
        answer_text(socket, "431 Request Header Fields Too Large", PLAIN, "a request may have 8 KiB\n");
    shutdown(socket, SHUT_WR);
    close(socket);
}

/* ---- the server ---- */

static int listen_at(const struct addrinfo *a)
{
    const int on = 1, s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (s < 0)
        return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!bind(s, a->ai_addr, a->ai_addrlen) && !listen(s, 16))
        return s;
    const int why = errno;
    close(s);
    errno = why;
    return -1;
}

/* -1 after a complaint. */
static int open_server(const top_target *target)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo      *found = NULL;
    const int             code = getaddrinfo(target->address, target->port, &wanted, &found);
    if (code) {
        complain("--prometheus: the address %s was not found: %s", target->address, gai_strerror(code));
        return -1;
    }
    const int server = listen_at(found);
    if (server < 0)
        complain("--prometheus: cannot listen on %s port %s: %s", target->address, target->port, strerror(errno));
    freeaddrinfo(found);
    return server;
}

/* Port 0 is any that is free. */
static void tell_address(int server, const char *address)
{
    struct sockaddr_storage at;
    socklen_t               size = sizeof at;
    char                    port[16] = "?";
    const bool              brackets = strchr(address, ':') != NULL;
    if (!getsockname(server, (struct sockaddr *)&at, &size))
        getnameinfo((struct sockaddr *)&at, size, NULL, 0, port, sizeof port, NI_NUMERICSERV);
    printf("metrics at http://%s%s%s:%s/metrics until Ctrl-C\n", brackets ? "[" : "", address, brackets ? "]" : "",
           port);
    fflush(stdout);
}

int top_serve(top_model *m, const top_target *target)
{
    const int server = open_server(target);
    if (server < 0)
        return EXIT_FAILED;
    tell_address(server, target->address);
    while (!interrupted()) {
        struct pollfd p = {.fd = server, .events = POLLIN};
        if (poll(&p, 1, TICK) < 1)
            continue;
        const int client = accept4(server, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client >= 0)
            talk(client, m);
    }
    close(server);
    return EXIT_INTERRUPTED;
}
