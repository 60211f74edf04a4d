/* A client on librdkafka, to load a broker with as little client CPU as the library allows.
 *
 *   produce BOOTSTRAP TOPIC PARTITIONS VALUE_BYTES BATCH_BYTES CODEC ACKS TOTAL_BYTES
 *           [SECONDS [KEYS FIRST]]
 *   consume BOOTSTRAP TOPIC PARTITIONS TOTAL_BYTES
 *   latency BOOTSTRAP TOPIC VALUE_BYTES PER_SECOND SECONDS ACKS
 *   transactions BOOTSTRAP TOPIC PARTITIONS VALUE_BYTES RECORDS SECONDS
 *
 * Before these words any number of `-X NAME=VALUE` set what else the library is told, as its TLS.
 * Each prints one JSON object. With SECONDS what is acknowledged by then counts, and the rest is
 * abandoned. With KEYS records have one of so many keys, by their numbers from FIRST on (as
 * benchmarks/parts/keys.py); the one that opens the connection counts. The library's functions are declared here, because the library that comes with
 * confluent-kafka has no headers; they are part of its stable interface.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common.h"

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct {
    int err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *opaque;
} rd_kafka_message_t;

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_dr_msg_cb(rd_kafka_conf_t *,
                                 void (*)(rd_kafka_t *, const rd_kafka_message_t *, void *));
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_t *rd_kafka_topic_new(rd_kafka_t *, const char *, void *);
int rd_kafka_produce(rd_kafka_topic_t *, int32_t, int, void *, size_t, const void *, size_t,
                     void *);
int rd_kafka_last_error(void);
int rd_kafka_poll(rd_kafka_t *, int);
int rd_kafka_flush(rd_kafka_t *, int);
rd_kafka_queue_t *rd_kafka_queue_new(rd_kafka_t *);
int rd_kafka_consume_start_queue(rd_kafka_topic_t *, int32_t, int64_t, rd_kafka_queue_t *);
ssize_t rd_kafka_consume_batch_queue(rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t);
void rd_kafka_message_destroy(rd_kafka_message_t *);
void *rd_kafka_init_transactions(rd_kafka_t *, int);
void *rd_kafka_begin_transaction(rd_kafka_t *);
void *rd_kafka_commit_transaction(rd_kafka_t *, int);
const char *rd_kafka_error_string(const void *);

enum { PRODUCER = 0, CONSUMER = 1, QUEUE_FULL = -184, POOL = 4 << 20 };

static long delivered, failed;
static double *latencies_us;
static long latency_count;

enum { SETTINGS_MAX = 32 };
static char *settings[SETTINGS_MAX]; /* NAME=VALUE, cut at the sign when they are used */
static int setting_count;

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != 0) fail(error);
}

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *unused) {
    (void)rk, (void)unused;
    if (m->err) failed++; else delivered++;
    if (latencies_us && !m->err) {
        double sent;
        int64_t bits = (int64_t)(intptr_t)m->opaque;
        sent = bits * 1e-9;
        latencies_us[latency_count++] = (now() - sent) * 1e6;
    }
}

static rd_kafka_t *make(int type, rd_kafka_conf_t *conf, const char *bootstrap) {
    char error[256];
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "log_level", "3");
    for (int i = 0; i < setting_count; i++) {
        char *sign = strchr(settings[i], '=');
        if (!sign) fail("-X takes NAME=VALUE");
        *sign = 0;
        set(conf, settings[i], sign + 1);
    }
    rd_kafka_t *rk = rd_kafka_new(type, conf, error, sizeof error);
    if (!rk) fail(error);
    return rk;
}

/* Half of every record is noise, half is not: it compresses about two to one. */
static char *payload_pool(size_t value_bytes) {
    char *pool = malloc(POOL + value_bytes);
    uint64_t x = 88172645463325252ull;
    for (size_t i = 0; i < POOL + value_bytes; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        pool[i] = i % value_bytes < value_bytes / 2 ? (char)x : 'p';
    }
    return pool;
}

enum { KEY_BYTES = 16 };

/* splitmix64 */
static uint64_t mixed(uint64_t n) {
    n = (n + 1) * 0x9E3779B97F4A7C15ull;
    n = (n ^ n >> 30) * 0xBF58476D1CE4E5B9ull;
    n = (n ^ n >> 27) * 0x94D049BB133111EBull;
    return n ^ n >> 31;
}

/* Writes the key of record `number` and returns its length: none where there are no keys. */
static size_t key_of(uint64_t number, uint64_t keys, char key[KEY_BYTES + 1]) {
    if (!keys) return 0;
    snprintf(key, KEY_BYTES + 1, "%016llu", (unsigned long long)(mixed(number) % keys));
    return KEY_BYTES;
}

static int produce(char **a, double seconds_max, long keys, long first) {
    int partitions = atoi(a[2]);
    size_t value_bytes = atol(a[3]);
    long total = atol(a[7]) / (long)value_bytes;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "batch.size", a[4]);
    set(conf, "batch.num.messages", "1000000");
    set(conf, "compression.type", a[5]);
    set(conf, "acks", a[6]);
    set(conf, "linger.ms", "5");
    set(conf, "queue.buffering.max.messages", "1000000");
    set(conf, "queue.buffering.max.kbytes", "262144");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = make(PRODUCER, conf, a[0]);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, a[1], NULL);
    char *pool = payload_pool(value_bytes);
    size_t at = 0;
    char key[KEY_BYTES + 1];
    size_t key_bytes = key_of(first, keys, key);
    rd_kafka_produce(topic, 0, 0, pool, value_bytes, key, key_bytes, NULL); /* before timing */
    rd_kafka_flush(rk, 30000);
    double begun = now(), begun_cpu = cpu(), until = begun + seconds_max;
    int is_late = 0;
    for (long n = 0; n < total && !is_late; n++) {
        at = (at + value_bytes) % POOL;
        key_bytes = key_of(first + n + 1, keys, key);
        while (rd_kafka_produce(topic, n % partitions, 0, pool + at, value_bytes, key, key_bytes,
                                NULL)) {
            if (rd_kafka_last_error() != QUEUE_FULL) fail("produce refused");
            rd_kafka_poll(rk, 5);
            if ((is_late = now() > until)) break;
        }
        if (n % 1000 == 0) rd_kafka_poll(rk, 0), is_late = now() > until;
    }
    double left = until - now();
    if (left > 0 && rd_kafka_flush(rk, left < 120 ? (int)(left * 1000) : 120000))
        is_late = left < 120;
    double seconds = now() - begun;
    printf("{\"records\": %ld, \"failed\": %ld, \"bytes\": %ld, \"seconds\": %f, \"client_cpu\": %f}\n",
           delivered - 1, failed, (delivered - 1) * (long)value_bytes, seconds, cpu() - begun_cpu);
    return failed || delivered < 2 || (delivered != total + 1 && !is_late);
}

static int consume(char **a) {
    int partitions = atoi(a[2]);
    long total = atol(a[3]), bytes = 0, records = 0;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "fetch.message.max.bytes", "4194304");
    set(conf, "fetch.max.bytes", "52428800");
    set(conf, "queued.max.messages.kbytes", "262144");
    set(conf, "queued.min.messages", "10000000");
    set(conf, "fetch.queue.backoff.ms", "1"); /* its default of 1 s would be what is measured */
    set(conf, "fetch.wait.max.ms", "100");
    rd_kafka_t *rk = make(CONSUMER, conf, a[0]);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, a[1], NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    for (int p = 0; p < partitions; p++) rd_kafka_consume_start_queue(topic, p, 0, queue);
    rd_kafka_message_t *messages[5000];
    double begun = 0, begun_cpu = 0, last = now();
    while (bytes < total && now() - last < 20) {
        ssize_t n = rd_kafka_consume_batch_queue(queue, 5, messages, 5000);
        for (ssize_t i = 0; i < n; i++) {
            if (!messages[i]->err) bytes += messages[i]->len, records++;
            rd_kafka_message_destroy(messages[i]);
        }
        if (n > 0) last = now();
        if (n > 0 && begun == 0) begun = last, begun_cpu = cpu();
    }
    printf("{\"records\": %ld, \"bytes\": %ld, \"seconds\": %f, \"client_cpu\": %f}\n", records,
           bytes, now() - begun, cpu() - begun_cpu);
    return bytes < total;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int latency(char **a) {
    size_t value_bytes = atol(a[2]);
    double per_second = atof(a[3]), seconds = atof(a[4]);
    long total = (long)(per_second * seconds), warm = (long)per_second;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "linger.ms", "0");
    set(conf, "acks", a[5]);
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = make(PRODUCER, conf, a[0]);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, a[1], NULL);
    char *pool = payload_pool(value_bytes);
    latencies_us = malloc(sizeof(double) * (total + warm + 1));
    rd_kafka_produce(topic, 0, 0, pool, value_bytes, NULL, 0, NULL);
    rd_kafka_flush(rk, 30000);
    double begun = now();
    for (long n = 0; n < total + warm; n++) {
        double due = begun + n / per_second; /* open loop: late sends count from when they were due */
        while (now() < due) {
            double left = due - now();
            rd_kafka_poll(rk, left > 0.002 ? 1 : 0);
        }
        intptr_t stamp = (intptr_t)(due * 1e9);
        while (rd_kafka_produce(topic, 0, 0, pool, value_bytes, NULL, 0, (void *)stamp))
            rd_kafka_poll(rk, 1);
    }
    rd_kafka_flush(rk, 60000);
    long skipped = warm + 1 < latency_count ? warm + 1 : 0, n = latency_count - skipped;
    double *sorted = latencies_us + skipped;
    qsort(sorted, n, sizeof(double), by_size);
    printf("{\"records\": %ld, \"failed\": %ld, \"p50\": %f, \"p99\": %f, \"p999\": %f, \"max\": %f}\n",
           n, failed, sorted[n / 2], sorted[n * 99 / 100], sorted[n * 999 / 1000], sorted[n - 1]);
    return failed != 0;
}

static void done(const void *error) {
    if (error) fail(rd_kafka_error_string(error));
}

/* One transaction after the other, each of RECORDS records that go around the partitions. Those of
 * the first second warm up. A commit is timed from when all records are acknowledged. */
static int transactions(char **a) {
    enum { MOST = 1 << 20 };
    int partitions = atoi(a[2]);
    size_t value_bytes = atol(a[3]), at = 0;
    long records = atol(a[4]), n = 0, sent = 0;
    double seconds = atof(a[5]);
    char id[32];
    snprintf(id, sizeof id, "bench-%ld", (long)(now() * 1e6));
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "transactional.id", id);
    set(conf, "linger.ms", "0");
    set(conf, "queue.buffering.max.messages", "1000000");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_t *rk = make(PRODUCER, conf, a[0]);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, a[1], NULL);
    char *pool = payload_pool(value_bytes);
    latencies_us = NULL;
    double *commits = malloc(sizeof(double) * MOST);
    done(rd_kafka_init_transactions(rk, 60000));
    double begun = now(), counted = 0, begun_cpu = 0;
    while (n < MOST && (!counted || now() < counted + seconds)) {
        if (!counted && now() > begun + 1) counted = now(), begun_cpu = cpu(), n = sent = 0;
        done(rd_kafka_begin_transaction(rk));
        for (long r = 0; r < records; r++) {
            at = (at + value_bytes) % POOL;
            while (rd_kafka_produce(topic, r % partitions, 0, pool + at, value_bytes, NULL, 0, NULL)) {
                if (rd_kafka_last_error() != QUEUE_FULL) fail("produce refused");
                rd_kafka_poll(rk, 1);
            }
        }
        if (rd_kafka_flush(rk, 60000)) fail("not acknowledged in a minute");
        double flushed = now();
        done(rd_kafka_commit_transaction(rk, 60000));
        commits[n++] = (now() - flushed) * 1e6;
        sent += records;
    }
    double took = now() - counted;
    qsort(commits, n, sizeof(double), by_size);
    printf("{\"transactions\": %ld, \"bytes\": %ld, \"seconds\": %f, \"client_cpu\": %f, "
           "\"p50\": %f, \"p99\": %f}\n",
           n, sent * (long)value_bytes, took, cpu() - begun_cpu, commits[n / 2],
           commits[n * 99 / 100]);
    return failed != 0;
}

int main(int argc, char **argv) {
    for (; argc > 2 && !strcmp(argv[1], "-X"); argc -= 2, argv += 2) {
        if (setting_count == SETTINGS_MAX) fail("too many settings");
        settings[setting_count++] = argv[2];
    }
    if (argc == 10 && !strcmp(argv[1], "produce")) return produce(argv + 2, 1e9, 0, 0);
    if (argc == 11 && !strcmp(argv[1], "produce")) return produce(argv + 2, atof(argv[10]), 0, 0);
    if (argc == 13 && !strcmp(argv[1], "produce"))
        return produce(argv + 2, atof(argv[10]), atol(argv[11]), atol(argv[12]));
    if (argc == 6 && !strcmp(argv[1], "consume")) return consume(argv + 2);
    if (argc == 8 && !strcmp(argv[1], "latency")) return latency(argv + 2);
    if (argc == 8 && !strcmp(argv[1], "transactions")) return transactions(argv + 2);
    fail("wrong arguments");
    return 2;
}
