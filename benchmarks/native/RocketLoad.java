// Loads Apache RocketMQ through its own Java client, for benchmarks/peers.
//
//   java -cp ... RocketLoad NAME_SERVERS CLUSTER
//
// It takes one command a line on standard input and answers each with one line of JSON, so that one
// client, warmed up, serves all measurements of a server:
//
//   create TOPIC QUEUES      everywhere TOPIC      delete TOPIC      await REPLICAS [CONTROLLER]
//   produce TOPIC QUEUES VALUE_BYTES BATCH_BYTES TOTAL_BYTES
//   consume TOPIC TOTAL_BYTES
//   latency TOPIC VALUE_BYTES PER_SECOND SECONDS
//   small TOPIC CONNECTIONS IN_FLIGHT SECONDS
//   first TOPIC                                writer TOPIC        acks        stop
//
// Throughput: batches are sent asynchronously with a bounded number on their way. Latency: the
// schedule is open, so a record counts from when it was due, whether or not earlier ones were
// answered. An acknowledgement below the durability the broker promises (FLUSH_DISK_TIMEOUT,
// SLAVE_NOT_AVAILABLE ...) ends the measurement with an error.

import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.body.BrokerReplicasInfo;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

public final class RocketLoad {
    static final int BYTES_IN_FLIGHT = 16 << 20;
    static final int BATCHES_IN_FLIGHT_MAX = 128;
    static final int RESENDS_MAX = 50;
    static final long SEND_MILLIS = 30_000;
    static final int BODIES = 1024;

    final String nameServers;
    final String cluster;
    final DefaultMQAdminExt admin;
    final List<DefaultMQProducer> producers = new ArrayList<>();
    final OperatingSystemMXBean system =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
    int consumers;
    volatile boolean isWriting;
    Thread writer;
    ConcurrentLinkedQueue<double[]> acks = new ConcurrentLinkedQueue<>();

    RocketLoad(String nameServers, String cluster) throws Exception {
        this.nameServers = nameServers;
        this.cluster = cluster;
        admin = new DefaultMQAdminExt(SEND_MILLIS);
        admin.setNamesrvAddr(nameServers);
        admin.setInstanceName("admin");
        admin.start();
    }

    DefaultMQProducer producer(int number) throws Exception {
        while (producers.size() <= number) {
            DefaultMQProducer made = new DefaultMQProducer("load-" + producers.size());
            made.setNamesrvAddr(nameServers);
            made.setInstanceName("load-" + producers.size()); // a connection of its own
            made.setSendMsgTimeout((int) SEND_MILLIS);
            made.setMaxMessageSize(4 << 20);
            made.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
            made.start();
            producers.add(made);
        }
        return producers.get(number);
    }

    /** Waits until every broker is registered, one is master and, in controller mode, all in sync. */
    String await(int replicas, String controller) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        String last = "";
        while (System.nanoTime() < until) {
            try {
                ClusterInfo info = admin.examineBrokerClusterInfo();
                int found = 0;
                boolean hasMaster = false;
                for (BrokerData data : info.getBrokerAddrTable().values()) {
                    found += data.getBrokerAddrs().size();
                    hasMaster |= data.getBrokerAddrs().containsKey(0L);
                }
                int inSync = controller.isEmpty() ? replicas : inSync(controller, info);
                last = found + " brokers, " + inSync + " in sync" + (hasMaster ? "" : ", no master");
                if (found >= replicas && hasMaster && inSync >= replicas) return "{\"brokers\": " + found + "}";
            } catch (Exception error) {
                last = String.valueOf(error.getMessage());
            }
            Thread.sleep(20);
        }
        throw new IllegalStateException("no whole cluster: " + last);
    }

    int inSync(String controller, ClusterInfo info) throws Exception {
        List<String> names = new ArrayList<>(info.getBrokerAddrTable().keySet());
        int least = Integer.MAX_VALUE;
        for (BrokerReplicasInfo.ReplicasInfo one
            : admin.getInSyncStateData(controller, names).getReplicasInfoTable().values()) {
            least = Math.min(least, one.getInSyncReplicas().size());
        }
        return least == Integer.MAX_VALUE ? 0 : least;
    }

    List<String> masters() throws Exception {
        List<String> found = new ArrayList<>();
        for (BrokerData data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            String address = data.getBrokerAddrs().get(0L);
            if (address != null) found.add(address);
        }
        return found;
    }

    String create(String topic, int queues) throws Exception {
        TopicConfig config = new TopicConfig(topic, queues, queues, 6);
        for (String master : masters()) admin.createAndUpdateTopicConfig(master, config);
        queues(topic, queues);
        return "{}";
    }

    /** The queues of a topic, once the name servers know all of them. */
    List<MessageQueue> queues(String topic, int wanted) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        while (true) {
            List<MessageQueue> found = List.of();
            try {
                found = producer(0).fetchPublishMessageQueues(topic);
            } catch (org.apache.rocketmq.client.exception.MQClientException absent) {
                if (System.nanoTime() > until) throw absent;
            }
            if (found.size() >= wanted) return found;
            if (System.nanoTime() > until) {
                throw new IllegalStateException(found.size() + " of " + wanted + " queues");
            }
            Thread.sleep(20);
        }
    }

    /** Waits until the slaves know a topic too: they copy the list every few seconds. */
    String everywhere(String topic) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        for (BrokerData data : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
            for (String address : data.getBrokerAddrs().values()) {
                while (!admin.getAllTopicConfig(address, SEND_MILLIS).getTopicConfigTable()
                    .containsKey(topic)) {
                    if (System.nanoTime() > until) {
                        throw new IllegalStateException(address + " does not know " + topic);
                    }
                    Thread.sleep(200);
                }
            }
        }
        return "{}";
    }

    String delete(String topic) throws Exception {
        Set<String> brokers = new HashSet<>(masters());
        admin.deleteTopicInBroker(brokers, topic);
        admin.deleteTopicInNameServer(new HashSet<>(admin.getNameServerAddressList()), topic);
        return "{}";
    }

    /** Half of every record is noise, half is not, as the other clients send. */
    static byte[][] bodies(int valueBytes) {
        byte[][] made = new byte[Math.max(1, Math.min(BODIES, (4 << 20) / valueBytes))][];
        long x = 88172645463325252L;
        for (int n = 0; n < made.length; n++) {
            made[n] = new byte[valueBytes];
            for (int i = 0; i < valueBytes; i++) {
                x ^= x << 13;
                x ^= x >>> 7;
                x ^= x << 17;
                made[n][i] = i < valueBytes / 2 ? (byte) x : (byte) 'p';
            }
        }
        return made;
    }

    /** Sends a batch, again when the broker was too busy; gives its permit back in the end. */
    final class Batch implements SendCallback {
        final DefaultMQProducer producer;
        final List<Message> messages;
        final MessageQueue queue;
        final Semaphore permits;
        final AtomicReference<String> error;
        final AtomicLong resent;
        int sends;

        Batch(DefaultMQProducer producer, List<Message> messages, MessageQueue queue,
              Semaphore permits, AtomicReference<String> error, AtomicLong resent) {
            this.producer = producer;
            this.messages = messages;
            this.queue = queue;
            this.permits = permits;
            this.error = error;
            this.resent = resent;
        }

        void send() {
            try {
                sends++;
                if (messages.size() == 1) {
                    producer.send(messages.get(0), queue, this, SEND_MILLIS);
                } else {
                    producer.send(messages, queue, this, SEND_MILLIS);
                }
            } catch (Exception failed) {
                onException(failed);
            }
        }

        @Override
        public void onSuccess(SendResult result) {
            if (result.getSendStatus() != SendStatus.SEND_OK) {
                error.compareAndSet(null, result.getSendStatus().name());
            }
            permits.release();
        }

        @Override
        public void onException(Throwable failed) {
            if (sends > RESENDS_MAX) {
                error.compareAndSet(null, String.valueOf(failed.getMessage()));
                permits.release();
                return;
            }
            resent.incrementAndGet();
            send();
        }
    }

    String produce(String topic, int queueCount, int valueBytes, int batchBytes, long total)
        throws Exception {
        DefaultMQProducer producer = producer(0);
        List<MessageQueue> queues = queues(topic, queueCount);
        byte[][] bodies = bodies(valueBytes);
        int perBatch = Math.max(1, batchBytes / valueBytes);
        long batchSize = (long) perBatch * valueBytes;
        long batches = Math.max(1, total / batchSize);
        long fit = Math.max(2, Math.min(BATCHES_IN_FLIGHT_MAX, BYTES_IN_FLIGHT / batchSize));
        Semaphore permits = new Semaphore((int) fit);
        AtomicReference<String> error = new AtomicReference<>();
        AtomicLong resent = new AtomicLong();
        producer.send(new Message(topic, bodies[0]), queues.get(0)); // connect before timing
        long begun = System.nanoTime(), begunCpu = system.getProcessCpuTime();
        for (long n = 0; n < batches && error.get() == null; n++) {
            List<Message> messages = new ArrayList<>(perBatch);
            for (int i = 0; i < perBatch; i++) {
                messages.add(new Message(topic, bodies[(int) ((n * perBatch + i) % bodies.length)]));
            }
            permits.acquire();
            MessageQueue queue = queues.get((int) (n % queueCount));
            new Batch(producer, messages, queue, permits, error, resent).send();
        }
        permits.acquire((int) fit);
        double seconds = (System.nanoTime() - begun) / 1e9;
        double cpu = (system.getProcessCpuTime() - begunCpu) / 1e9;
        if (error.get() != null) throw new IllegalStateException(error.get());
        return String.format(
            "{\"bytes\": %d, \"seconds\": %f, \"client_cpu\": %f, \"resent\": %d}",
            batches * batchSize, seconds, cpu, resent.get());
    }

    String consume(String topic, long total) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("read-" + consumers);
        consumer.setNamesrvAddr(nameServers);
        consumer.setInstanceName("read-" + consumers++);
        consumer.setAutoCommit(false);
        // A new group that begins at the first record; a seek would race with the first pull.
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPullBatchSize(1024);
        consumer.setPullThresholdForAll(200_000);
        consumer.setPullThresholdForQueue(20_000);
        consumer.start();
        try {
            List<MessageQueue> queues = new ArrayList<>(consumer.fetchMessageQueues(topic));
            consumer.assign(queues);
            long bytes = 0, records = 0, begun = 0, begunCpu = 0, last = System.nanoTime();
            while (bytes < total && System.nanoTime() - last < 20_000_000_000L) {
                List<MessageExt> found = consumer.poll(100);
                if (found.isEmpty()) continue;
                last = System.nanoTime();
                if (begun == 0) {
                    begun = last;
                    begunCpu = system.getProcessCpuTime();
                }
                for (MessageExt one : found) bytes += one.getBody().length;
                records += found.size();
            }
            if (bytes < total) throw new IllegalStateException(bytes + " of " + total + " bytes");
            return String.format(
                "{\"records\": %d, \"bytes\": %d, \"seconds\": %f, \"client_cpu\": %f}",
                records, bytes, Math.max(1, last - begun) / 1e9,
                (system.getProcessCpuTime() - begunCpu) / 1e9);
        } finally {
            consumer.shutdown();
        }
    }

    String latency(String topic, int valueBytes, int perSecond, int seconds) throws Exception {
        DefaultMQProducer producer = producer(0);
        MessageQueue queue = queues(topic, 1).get(0);
        byte[] body = bodies(valueBytes)[0];
        producer.send(new Message(topic, body), queue);
        int warm = perSecond, total = perSecond * seconds + warm;
        long[] took = new long[total];
        CountDownLatch open = new CountDownLatch(total);
        AtomicReference<String> error = new AtomicReference<>();
        long begun = System.nanoTime();
        for (int n = 0; n < total; n++) {
            long due = begun + (long) (n * 1e9 / perSecond);
            while (System.nanoTime() < due) {
                if (due - System.nanoTime() > 2_000_000) Thread.sleep(1);
                else Thread.yield();
            }
            int at = n;
            producer.send(new Message(topic, body), queue, new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    took[at] = System.nanoTime() - due;
                    if (result.getSendStatus() != SendStatus.SEND_OK) {
                        error.compareAndSet(null, result.getSendStatus().name());
                    }
                    open.countDown();
                }

                @Override
                public void onException(Throwable failed) {
                    error.compareAndSet(null, String.valueOf(failed.getMessage()));
                    open.countDown();
                }
            }, SEND_MILLIS);
        }
        if (!open.await(60, TimeUnit.SECONDS)) throw new IllegalStateException("answers are missing");
        if (error.get() != null) throw new IllegalStateException(error.get());
        long[] sorted = Arrays.copyOfRange(took, warm, total);
        Arrays.sort(sorted);
        int count = sorted.length;
        return String.format(
            "{\"records\": %d, \"p50\": %f, \"p99\": %f, \"p999\": %f, \"max\": %f}", count,
            sorted[count / 2] / 1e3, sorted[(int) (count * 99L / 100)] / 1e3,
            sorted[(int) (count * 999L / 1000)] / 1e3, sorted[count - 1] / 1e3);
    }

    /** Sends one record a request; each connection keeps so many on their way. */
    String small(String topic, int connections, int inFlight, int seconds) throws Exception {
        MessageQueue queue = queues(topic, 1).get(0);
        byte[] body = bodies(100)[0];
        AtomicReference<String> error = new AtomicReference<>();
        AtomicLong resent = new AtomicLong(), sent = new AtomicLong();
        long begun = System.nanoTime(), until = begun + seconds * 1_000_000_000L;
        int instances = Math.min(4, connections);
        int permitsEach = connections * inFlight / instances;
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < instances; number++) {
            DefaultMQProducer producer = producer(number);
            producer.send(new Message(topic, body), queue);
            threads.add(new Thread(() -> {
                Semaphore permits = new Semaphore(permitsEach);
                while (System.nanoTime() < until && error.get() == null) {
                    permits.acquireUninterruptibly();
                    List<Message> one = List.of(new Message(topic, body));
                    new Batch(producer, one, queue, permits, error, resent).send();
                    sent.incrementAndGet();
                }
                permits.acquireUninterruptibly(permitsEach);
            }));
        }
        begun = System.nanoTime();
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        if (error.get() != null) throw new IllegalStateException(error.get());
        return String.format("{\"requests\": %d, \"seconds\": %f}", sent.get(),
            (System.nanoTime() - begun) / 1e9);
    }

    /** Returns when a record was acknowledged; tries again until then. */
    String first(String topic) throws Exception {
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        while (true) {
            try {
                DefaultMQProducer producer = producer(0);
                if (producer.send(new Message(topic, new byte[5])).getSendStatus()
                    == SendStatus.SEND_OK) return "{}";
            } catch (Exception failed) {
                if (System.nanoTime() > until) throw failed;
            }
            if (System.nanoTime() > until) throw new IllegalStateException("no durable record");
            Thread.sleep(10);
        }
    }

    /** Sends a record every 5 ms from a thread of its own, whatever was answered. */
    String write(String topic) throws Exception {
        DefaultMQProducer producer = producer(1);
        isWriting = true;
        acks = new ConcurrentLinkedQueue<>();
        writer = new Thread(() -> {
            while (isWriting) {
                double sentAt = System.nanoTime() / 1e9;
                try {
                    producer.send(new Message(topic, new byte[100]), new SendCallback() {
                        @Override
                        public void onSuccess(SendResult result) {
                            if (result.getSendStatus() == SendStatus.SEND_OK) {
                                acks.add(new double[] {sentAt, System.nanoTime() / 1e9});
                            }
                        }

                        @Override
                        public void onException(Throwable failed) {
                            // Not acknowledged: that silence is what is measured.
                        }
                    }, 3_000);
                    Thread.sleep(5);
                } catch (InterruptedException over) {
                    return;
                } catch (Exception failed) {
                    // As above.
                }
            }
        });
        writer.start();
        return "{}";
    }

    String written() {
        StringBuilder text = new StringBuilder("{\"acks\": [");
        String separator = "";
        for (double[] one : acks) {
            text.append(separator).append('[').append(one[0]).append(", ").append(one[1]).append(']');
            separator = ", ";
        }
        return text.append("]}").toString();
    }

    String stop() throws Exception {
        isWriting = false;
        writer.join();
        return "{}";
    }

    String answer(String[] a) throws Exception {
        switch (a[0]) {
            case "await": return await(Integer.parseInt(a[1]), a.length > 2 ? a[2] : "");
            case "create": return create(a[1], Integer.parseInt(a[2]));
            case "everywhere": return everywhere(a[1]);
            case "delete": return delete(a[1]);
            case "produce":
                return produce(a[1], Integer.parseInt(a[2]), Integer.parseInt(a[3]),
                    Integer.parseInt(a[4]), Long.parseLong(a[5]));
            case "consume": return consume(a[1], Long.parseLong(a[2]));
            case "latency":
                return latency(a[1], Integer.parseInt(a[2]), Integer.parseInt(a[3]),
                    Integer.parseInt(a[4]));
            case "small":
                return small(a[1], Integer.parseInt(a[2]), Integer.parseInt(a[3]),
                    Integer.parseInt(a[4]));
            case "first": return first(a[1]);
            case "writer": return write(a[1]);
            case "acks": return written();
            case "stop": return stop();
            case "master":
                return "{\"address\": \"" + String.join(";", masters()) + "\"}";
            default: throw new IllegalArgumentException("no such command: " + a[0]);
        }
    }

    static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (char one : text.toCharArray()) {
            if (one == '"' || one == '\\') made.append('\\').append(one);
            else made.append(one < ' ' ? ' ' : one);
        }
        return made.append('"').toString();
    }

    public static void main(String[] arguments) throws Exception {
        RocketLoad load = new RocketLoad(arguments[0], arguments[1]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                answer = load.answer(line.trim().split(" +"));
            } catch (Throwable failed) {
                answer = "{\"error\": " + quoted(failed.getClass().getSimpleName() + ": "
                    + failed.getMessage()) + "}";
            }
            System.out.println("@" + answer); // the client's own messages have no @
            System.out.flush();
        }
        System.exit(0);
    }
}
