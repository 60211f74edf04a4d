/* Sends one prepared request again and again over many connections and counts the answers.
 *
 *   HOST PORT FRAME_FILE CONNECTIONS IN_FLIGHT SECONDS ERROR_AT [PRELUDE_FILE]
 *
 * FRAME_FILE holds the whole request, length included. Each connection keeps IN_FLIGHT requests on
 * their way. ERROR_AT is where in an answer (after its length) the int16 error code stands. What
 * PRELUDE_FILE holds is sent first on each connection, one request after the other, as a login is:
 * the error code of each answer stands right behind its correlation id. Costs
 * next to nothing itself, so that the broker is the bottleneck. Prints one JSON object.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

typedef struct {
    int fd, used, owed; /* bytes in the buffer; requests to send */
    size_t sent;        /* bytes of the current request that are out */
    char buffer[65536];
} Connection;

static char frame[1 << 20];
static size_t frame_bytes;
static long answers, errors;

static char *copies; /* the frame many times over, so that one send carries many requests */
static int copies_count;

static void send_owed(Connection *c) {
    while (c->owed > 0) {
        int n = c->owed < copies_count ? c->owed : copies_count;
        ssize_t done = send(c->fd, copies + c->sent, frame_bytes * n - c->sent, MSG_NOSIGNAL);
        if (done < 0) {
            if (errno == EAGAIN) return;
            fail_call("send");
        }
        size_t total = c->sent + done;
        c->owed -= total / frame_bytes;
        c->sent = total % frame_bytes;
    }
}

static void take_answers(Connection *c, int error_at) {
    ssize_t n = recv(c->fd, c->buffer + c->used, sizeof c->buffer - c->used, 0);
    if (n == 0) fail("closed by the broker");
    if (n < 0) {
        if (errno == EAGAIN) return;
        fail_call("recv");
    }
    c->used += n;
    int at = 0;
    while (c->used - at >= 4) {
        uint32_t length;
        memcpy(&length, c->buffer + at, 4);
        length = ntohl(length);
        if ((uint32_t)(c->used - at - 4) < length) break;
        if (c->buffer[at + 4 + error_at] || c->buffer[at + 5 + error_at]) errors++;
        answers++;
        c->owed++;
        at += 4 + length;
    }
    memmove(c->buffer, c->buffer + at, c->used - at);
    c->used -= at;
}

static void read_all(int fd, char *to, size_t wanted) {
    if (recv(fd, to, wanted, MSG_WAITALL) != (ssize_t)wanted) fail("closed in the prelude");
}

/* Send each request of the prelude, and wait for its answer. */
static void admit(int fd, const char *prelude, size_t size) {
    char answer[65536];
    uint32_t length;
    for (size_t at = 0; at < size; at += 4 + length) {
        memcpy(&length, prelude + at, 4);
        length = ntohl(length);
        if (send(fd, prelude + at, 4 + length, MSG_NOSIGNAL) < 0) fail_call("send");
        uint32_t answered;
        read_all(fd, (char *)&answered, 4);
        answered = ntohl(answered);
        if (answered < 6 || answered > sizeof answer) fail("an answer of a strange size");
        read_all(fd, answer, answered);
        if (answer[4] || answer[5]) fail("the prelude is refused");
    }
}

static int dial(const char *host, int port, const char *prelude, size_t prelude_bytes) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, host, &address.sin_addr);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) fail_call("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    admit(fd, prelude, prelude_bytes);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

int main(int argc, char **argv) {
    if (argc != 8 && argc != 9) return 2;
    int connections = atoi(argv[4]), in_flight = atoi(argv[5]), error_at = atoi(argv[7]);
    double seconds = atof(argv[6]);
    FILE *file = fopen(argv[3], "rb");
    if (!file) fail_call(argv[3]);
    frame_bytes = fread(frame, 1, sizeof frame, file);
    static char prelude[65536];
    FILE *before = argc == 9 ? fopen(argv[8], "rb") : NULL;
    if (argc == 9 && !before) fail_call(argv[8]);
    size_t prelude_bytes = before ? fread(prelude, 1, sizeof prelude, before) : 0;
    copies_count = in_flight;
    copies = malloc(frame_bytes * copies_count);
    for (int i = 0; i < copies_count; i++) memcpy(copies + i * frame_bytes, frame, frame_bytes);
    int poller = epoll_create1(0);
    Connection *all = calloc(connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        all[i].fd = dial(argv[1], atoi(argv[2]), prelude, prelude_bytes);
        all[i].owed = in_flight;
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(poller, EPOLL_CTL_ADD, all[i].fd, &e);
        send_owed(&all[i]);
    }
    double warm_until = now() + seconds / 4, begun = 0, last = now();
    while (begun == 0 || now() - begun < seconds) {
        struct epoll_event events[256];
        int n = epoll_wait(poller, events, 256, 1000);
        for (int i = 0; i < n; i++) {
            take_answers(events[i].data.ptr, error_at);
            send_owed(events[i].data.ptr);
        }
        if (n > 0) last = now();
        if (now() - last > 10) fail("no answer for 10 s");
        if (begun == 0 && now() > warm_until) {
            printf("measuring\n"), fflush(stdout);
            begun = now(), answers = 0;
        }
    }
    printf("{\"requests\": %ld, \"errors\": %ld, \"seconds\": %f}\n", answers, errors, now() - begun);
    return errors != 0;
}
