/* What the kernel alone takes to move records between a file and a loopback connection.
 *
 *   sendfile FILE BYTES   what a broker that looks at nothing does to serve a read (Kafka)
 *   copy FILE BYTES       pread into a buffer and write it: what one that looks at the bytes does
 *   take FILE BYTES       read a connection and pwrite: what taking records costs without a look
 *
 * FILE has BYTES bytes, in the page cache. The other end is a child that reads or writes as fast as
 * it can and does nothing else. Prints one JSON object: seconds, and CPU seconds of this side.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

enum { PIECE = 1 << 20 };

static char buffer[PIECE];

static int listen_anywhere(struct sockaddr_in *address) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    socklen_t length = sizeof *address;
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (listener < 0 || bind(listener, (struct sockaddr *)address, length) != 0) fail_call("bind");
    if (listen(listener, 1) != 0) fail_call("listen");
    getsockname(listener, (struct sockaddr *)address, &length);
    return listener;
}

/* The other end: a process of its own, so that its CPU is not counted here. */
static void other_end(const struct sockaddr_in *address, long total, int is_sender) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(s, (const struct sockaddr *)address, sizeof *address) != 0) fail_call("connect");
    for (long moved = 0; moved < total;) {
        long left = total - moved < PIECE ? total - moved : PIECE;
        ssize_t n = is_sender ? write(s, buffer, left) : read(s, buffer, left);
        if (n <= 0) fail_call("other end");
        moved += n;
    }
    close(s);
    _exit(0);
}

static void write_all(int to, const char *data, long size) {
    for (long done = 0; done < size;) {
        ssize_t n = write(to, data + done, size - done);
        if (n <= 0) fail_call("write");
        done += n;
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    long total = atol(argv[3]);
    int is_taking = strcmp(argv[1], "take") == 0, is_sendfile = strcmp(argv[1], "sendfile") == 0;
    int file = open(argv[2], O_RDWR);
    if (file < 0) fail_call(argv[2]);
    struct sockaddr_in address;
    int listener = listen_anywhere(&address);
    pid_t child = fork();
    if (child == 0) other_end(&address, total, is_taking);
    int s = accept(listener, NULL, NULL);
    if (s < 0) fail_call("accept");
    double begun = now(), begun_cpu = cpu();
    off_t at = 0;
    while (at < total) {
        long left = total - at < PIECE ? total - at : PIECE;
        ssize_t n;
        if (is_sendfile) {
            n = sendfile(s, file, &at, left);
        } else if (is_taking) {
            n = read(s, buffer, left);
            if (n > 0 && pwrite(file, buffer, n, at) != n) fail_call("pwrite");
            at += n;
        } else {
            n = pread(file, buffer, left, at);
            if (n > 0) write_all(s, buffer, n);
            at += n;
        }
        if (n <= 0) fail_call(argv[1]);
    }
    double seconds = now() - begun, used = cpu() - begun_cpu;
    close(s);
    int status = 1;
    waitpid(child, &status, 0);
    printf("{\"seconds\": %f, \"cpu\": %f}\n", seconds, used);
    return status != 0;
}
