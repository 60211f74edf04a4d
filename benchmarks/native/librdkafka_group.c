/* A group of consumers on librdkafka in one process, to time rebalances.
 *
 *   librdkafka_group BOOTSTRAP TOPIC PARTITIONS MEMBERS PROTOCOL
 *
 * PROTOCOL is group.protocol: classic or consumer. Prints one JSON object with seconds: `form`, until
 * MEMBERS that begin at once own all partitions; `join`, until one more owns its share and all are owned
 * again; `leave`, until all are owned again after one has left.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "common.h"

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_event_s rd_kafka_event_t;
typedef struct {
    int cnt;
    int size;
    void *elems;
} rd_kafka_topic_partition_list_t;

rd_kafka_conf_t *rd_kafka_conf_new(void);
int rd_kafka_conf_set(rd_kafka_conf_t *, const char *, const char *, char *, size_t);
void rd_kafka_conf_set_events(rd_kafka_conf_t *, int);
rd_kafka_t *rd_kafka_new(int, rd_kafka_conf_t *, char *, size_t);
rd_kafka_topic_partition_list_t *rd_kafka_topic_partition_list_new(int);
void *rd_kafka_topic_partition_list_add(rd_kafka_topic_partition_list_t *, const char *, int32_t);
int rd_kafka_subscribe(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
rd_kafka_queue_t *rd_kafka_queue_get_consumer(rd_kafka_t *);
rd_kafka_event_t *rd_kafka_queue_poll(rd_kafka_queue_t *, int);
int rd_kafka_event_type(const rd_kafka_event_t *);
int rd_kafka_event_error(const rd_kafka_event_t *);
void rd_kafka_event_destroy(rd_kafka_event_t *);
rd_kafka_topic_partition_list_t *rd_kafka_event_topic_partition_list(rd_kafka_event_t *);
int rd_kafka_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
void *rd_kafka_incremental_assign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
void *rd_kafka_incremental_unassign(rd_kafka_t *, const rd_kafka_topic_partition_list_t *);
const char *rd_kafka_rebalance_protocol(rd_kafka_t *);
void *rd_kafka_consumer_close_queue(rd_kafka_t *, rd_kafka_queue_t *);

enum { CONSUMER = 1, REBALANCE = 0x10, ASSIGN = -175, MEMBERS_MAX = 1000 };

static const double WAIT_SECONDS = 120, LOOK_MICROSECONDS = 500;

static struct member {
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    int owned;
} members[MEMBERS_MAX];
static int member_count, owned;

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char error[256];
    if (rd_kafka_conf_set(conf, name, value, error, sizeof error) != 0) fail(error);
}

static void join(const char *bootstrap, const char *topic, const char *protocol) {
    char error[256];
    struct member *one = &members[member_count++];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", bootstrap);
    set(conf, "log_level", "3");
    set(conf, "group.id", topic); /* a topic is used by one group */
    set(conf, "group.protocol", protocol);
    set(conf, "enable.auto.commit", "false");
    set(conf, "reconnect.backoff.ms", "10");
    rd_kafka_conf_set_events(conf, REBALANCE);
    one->rk = rd_kafka_new(CONSUMER, conf, error, sizeof error);
    if (!one->rk) fail(error);
    one->queue = rd_kafka_queue_get_consumer(one->rk);
    rd_kafka_topic_partition_list_t *names = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(names, topic, -1);
    if (rd_kafka_subscribe(one->rk, names)) fail("subscribe refused");
}

static void rebalance(struct member *one, rd_kafka_event_t *event) {
    rd_kafka_topic_partition_list_t *parts = rd_kafka_event_topic_partition_list(event);
    int is_given = rd_kafka_event_error(event) == ASSIGN, before = one->owned;
    if (!strcmp(rd_kafka_rebalance_protocol(one->rk), "COOPERATIVE")) {
        void *refused = is_given ? rd_kafka_incremental_assign(one->rk, parts)
                                 : rd_kafka_incremental_unassign(one->rk, parts);
        if (refused) fail("assignment refused");
        one->owned += is_given ? parts->cnt : -parts->cnt;
    } else {
        if (rd_kafka_assign(one->rk, is_given ? parts : NULL)) fail("assignment refused");
        one->owned = is_given ? parts->cnt : 0;
    }
    owned += one->owned - before;
}

/* Serve all members until everything is owned, each of the first `members` owning its share. */
static double until_owned(int partitions, int sharing, double begun) {
    for (;;) {
        int least = partitions;
        for (int m = 0; m < member_count; m++) {
            rd_kafka_event_t *event;
            while ((event = rd_kafka_queue_poll(members[m].queue, 0))) {
                if (rd_kafka_event_type(event) == REBALANCE) rebalance(&members[m], event);
                rd_kafka_event_destroy(event);
            }
            if (m < sharing && members[m].owned < least) least = members[m].owned;
        }
        if (owned == partitions && least >= partitions / sharing) return now() - begun;
        if (now() > begun + WAIT_SECONDS) fail("the group has not come to rest in two minutes");
        usleep(LOOK_MICROSECONDS);
    }
}

int main(int argc, char **argv) {
    if (argc != 6) fail("wrong arguments");
    int partitions = atoi(argv[3]), wanted = atoi(argv[4]);
    if (wanted < 2 || wanted + 1 > MEMBERS_MAX || partitions < wanted + 1) fail("wrong arguments");
    double begun = now();
    for (int m = 0; m < wanted; m++) join(argv[1], argv[2], argv[5]);
    double form = until_owned(partitions, wanted, begun);
    begun = now();
    join(argv[1], argv[2], argv[5]);
    double more = until_owned(partitions, wanted + 1, begun);
    begun = now();
    if (rd_kafka_consumer_close_queue(members[wanted].rk, members[wanted].queue)) fail("close refused");
    double less = until_owned(partitions, wanted, begun);
    printf("{\"form\": %f, \"join\": %f, \"leave\": %f}\n", form, more, less);
    fflush(stdout);
    _exit(0); /* a hundred members that leave one after the other would take minutes */
}
